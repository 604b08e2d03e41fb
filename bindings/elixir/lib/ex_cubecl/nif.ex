defmodule ExCubecl.NIF do
  @moduledoc false
  # The functions of c_src/nif.cpp, and how to wait for what they start. No function blocks a scheduler.

  @on_load :load

  @doc false
  def load do
    path = Path.join(:code.priv_dir(:tessera), "tessera_nif")

    case :erlang.load_nif(String.to_charlist(path), 0) do
      :ok ->
        :ok

      # The functions below then say so, and ExCubecl.available?/0 is false.
      {:error, {_, text}} ->
        :persistent_term.put(__MODULE__, List.to_string(text))
    end
  end

  # Functions with two modes answer :slow if they would take long, and are then called in the background.
  @spec call(atom(), list()) :: term()
  def call(function, arguments) do
    case apply(__MODULE__, function, arguments) do
      :slow -> call_in_background(function, arguments)
      result -> result
    end
  end

  @spec call_in_background(atom(), list()) :: term()
  def call_in_background(function, arguments) do
    ref = make_ref()
    :ok = background(ref, function, arguments)

    receive do
      {^ref, {:raise, message}} -> raise ArgumentError, message
      {^ref, result} -> result
    end
  end

  # Submits again whenever the stream, which is full, may have a place.
  @spec submit_to(atom(), list(), reference() | nil) :: term()
  def submit_to(function, arguments, stream) do
    case call(function, arguments) do
      :full ->
        ref = make_ref()

        if stream_watch(stream, ref) == :watching do
          receive do: ({^ref, :ready} -> :ok)
        end

        submit_to(function, arguments, stream)

      result ->
        result
    end
  end

  # Parks the process until the command has finished.
  @spec wait(term(), timeout()) :: :ok | {:error, term()}
  def wait(id, timeout) do
    ref = make_ref()

    case watch(id, ref) do
      :watching -> await(id, ref, timeout)
      result -> result
    end
  end

  defp await(id, ref, timeout) do
    receive do
      {^ref, result} -> result
    after
      timeout ->
        case unwatch(id, ref) do
          true -> {:error, :timeout}
          # It has finished meanwhile: the message is there or on its way.
          _ -> receive do: ({^ref, result} -> result)
        end
    end
  end

  def background(_ref, _function, _arguments), do: not_loaded()
  def buffer_free(_buffer), do: not_loaded()
  def buffer_info(_buffer), do: not_loaded()
  def buffer_new(_data, _shape, _dtype), do: not_loaded()
  def buffer_zeros(_shape, _dtype), do: not_loaded()
  def cancel(_id), do: not_loaded()
  def completed_stages(_count), do: not_loaded()
  def fail_command(_label, _reason), do: not_loaded()
  def hold(_buffer), do: not_loaded()
  def library_version, do: not_loaded()
  def live_handles, do: not_loaded()
  def memory, do: not_loaded()
  def pipeline_add(_pipeline, _op, _kernel, _inputs, _outputs, _params, _spec, _problem), do: not_loaded()
  def pipeline_free(_pipeline), do: not_loaded()
  def pipeline_new(_is_numbered), do: not_loaded()
  def pipeline_stages(_pipeline), do: not_loaded()
  def pipeline_submit(_pipeline, _stream, _notify), do: not_loaded()
  def poll(_id), do: not_loaded()
  def release_hold(_hold), do: not_loaded()
  def set_observer(_pid), do: not_loaded()
  def snapshot_copy(_snapshot), do: not_loaded()
  def snapshot_new(_buffer), do: not_loaded()
  def snapshot_share(_snapshot), do: not_loaded()
  def stream_in_flight(_stream), do: not_loaded()
  def stream_watch(_stream, _ref), do: not_loaded()
  def submit(_kernel, _inputs, _output, _params, _stream, _notify), do: not_loaded()
  def submit_command(_name, _stream, _notify), do: not_loaded()
  def unwatch(_id, _ref), do: not_loaded()
  def watch(_id, _ref), do: not_loaded()

  defp not_loaded, do: :erlang.nif_error({:not_loaded, :persistent_term.get(__MODULE__, "the NIF was not loaded")})
end
