defmodule ExCubecl do
  @moduledoc """
  Asynchronous compute on the CPU or a GPU: buffers, kernels, commands and pipelines.

      iex> {:ok, a} = ExCubecl.buffer([1.0, 2.0, 3.0], [3], :f32)
      iex> {:ok, b} = ExCubecl.buffer([4.0, 5.0, 6.0], [3], :f32)
      iex> {:ok, c} = ExCubecl.buffer([0.0, 0.0, 0.0], [3], :f32)
      iex> {:ok, command} = ExCubecl.submit("elementwise_add", [a, b], c)
      iex> :ok = ExCubecl.wait(command)
      iex> ExCubecl.read(c)
      {:ok, <<5.0::float-32-native, 7.0::float-32-native, 9.0::float-32-native>>}

  ## What to know

    * Work is submitted and runs on threads of its own, or on the GPU. `wait/1` and all functions that have to wait park
      the Elixir process on a message. No scheduler is ever blocked.
    * Commands are ordered by the buffers they use: one that reads a buffer runs after those that write it, whichever
      processes have submitted them. Commands that share nothing run at the same time.
    * Buffers and streams are references, and their memory is freed by the garbage collector. Commands and pipelines are
      numbers. A pipeline is freed with the process that made it. A command's number is valid for at
      least 65,536 commands after its own has finished; later it is unknown, as if it had never been given.
    * A term of the wrong type raises `ArgumentError`. What else is wrong gives `{:error, reason}`, changes nothing, and
      the reason, a text, names the culprit.
    * If a command fails, its output cannot be read: reading it gives the reason why, until it is written again.

  The device is the default one of the library; the environment variable `TESSERA_DEVICE` chooses another (`cpu`,
  `vulkan`, `opencl`, `gles`).
  """

  alias ExCubecl.{Command, NIF, Params}

  @type buffer :: reference()
  @type command_id :: pos_integer()
  @typedoc "The number that `pipeline/0` gave, or the `:ref` of a `Dala.Gpu.Compute.Pipeline`."
  @type pipeline :: pos_integer() | reference()
  @type stream :: reference()
  @type dtype :: :f32 | :f64 | :s32 | :s64 | :u32 | :u8
  @type status :: :pending | :running | :completed | :failed | :cancelled
  @type kernel :: String.t() | atom()
  @type params :: map() | keyword()
  @type option :: {:notify, pid()} | {:stream, stream()}

  @dtypes [:f32, :f64, :s32, :s64, :u32, :u8]

  ## Device

  @doc """
  Whether the native library is loaded and a device can be opened.

      iex> ExCubecl.available?()
      true
  """
  @spec available?() :: boolean()
  def available? do
    match?({:ok, _}, device_info())
  rescue
    ErlangError -> false
  end

  @doc """
  The version of Tessera.

      iex> ExCubecl.version()
      "0.1.0"
  """
  @spec version() :: String.t()
  def version, do: NIF.library_version()

  @doc """
  The element types of buffers.

      iex> ExCubecl.supported_dtypes()
      [:f32, :f64, :s32, :s64, :u32, :u8]
  """
  @spec supported_dtypes() :: [dtype()]
  def supported_dtypes, do: @dtypes

  @doc """
  What the device is: `device_name`, `device_type` (`"cpu"` or `"gpu"`), `total_memory` in bytes, `compute_units`,
  `backend` and `driver_version`.

      iex> {:ok, info} = ExCubecl.device_info()
      iex> info.device_type in ["cpu", "gpu"] and info.total_memory > 0 and info.compute_units > 0
      true
  """
  @spec device_info() :: {:ok, map()} | {:error, String.t()}
  def device_info, do: NIF.call_in_background(:device_info, [])

  @doc """
  How many devices there are, the CPU included. The first call loads all drivers.

      iex> {:ok, count} = ExCubecl.device_count()
      iex> count >= 1
      true
  """
  @spec device_count() :: {:ok, pos_integer()} | {:error, String.t()}
  def device_count, do: NIF.call_in_background(:device_count, [])

  @doc """
  The device's memory: bytes `in_use` and `reserved`, their `peak` and `limit`, and the number of `buffers`.

      iex> {:ok, _buffer} = ExCubecl.buffer([1.0], [1])
      iex> {:ok, memory} = ExCubecl.memory()
      iex> memory.in_use > 0
      true
  """
  @spec memory() :: {:ok, map()} | {:error, String.t()}
  def memory, do: NIF.call(:memory, [])

  @doc """
  How much power the device may use: `:nominal`, `:fair`, `:serious` or `:critical`. See `power_level/1`.

      iex> ExCubecl.power_level()
      {:ok, :nominal}
  """
  @spec power_level() :: {:ok, atom()} | {:error, String.t()}
  def power_level, do: NIF.call_in_background(:power_level, [])

  @doc """
  Sets how much power the device may use, from the battery's state or the temperature.

  `:nominal` uses all workers, `:fair` three quarters of them, `:serious` half, `:critical` one. The last two also hold
  back commands of streams with low priority.

      iex> ExCubecl.power_level(:serious)
      :ok
      iex> ExCubecl.power_level(:nominal)
      :ok
  """
  @spec power_level(:nominal | :fair | :serious | :critical) :: :ok | {:error, String.t()}
  def power_level(level), do: NIF.call_in_background(:set_power_level, [level])

  ## Buffers

  @doc """
  Makes a buffer from a list of numbers, or from a binary with the elements in native byte order.

  Of floats, the atoms `:nan`, `:infinity` and `:neg_infinity` are elements too.

      iex> {:ok, buffer} = ExCubecl.buffer([1, 2, 3, 4], [2, 2], :s32)
      iex> ExCubecl.shape(buffer)
      {:ok, [2, 2]}
      iex> ExCubecl.buffer([1.0, 2.0], [3])
      {:error, "buffer_new: f32[3] has 3 elements of 4 bytes, but the data has 8 bytes"}
      iex> ExCubecl.buffer([256], [1], :u8)
      {:error, "buffer_new: element 0 is 256, not a number of type u8"}
  """
  @spec buffer(list() | binary(), [non_neg_integer()], dtype()) :: {:ok, buffer()} | {:error, String.t()}
  def buffer(data, shape, dtype \\ :f32), do: NIF.call(:buffer_new, [data, shape, dtype])

  @doc """
  Like `buffer/3`, but gives the buffer itself, and raises if that fails.

      iex> is_reference(ExCubecl.buffer!([1.0, 2.0], [2]))
      true
  """
  @spec buffer!(list() | binary(), [non_neg_integer()], dtype()) :: buffer()
  def buffer!(data, shape, dtype \\ :f32) do
    case buffer(data, shape, dtype) do
      {:ok, buffer} -> buffer
      {:error, reason} -> raise "ExCubecl.buffer!/3 failed: #{reason}"
    end
  end

  @doc """
  Makes a buffer of zeros.

      iex> {:ok, buffer} = ExCubecl.zeros([2], :u8)
      iex> ExCubecl.read(buffer)
      {:ok, <<0, 0>>}
  """
  @spec zeros([non_neg_integer()], dtype()) :: {:ok, buffer()} | {:error, String.t()}
  def zeros(shape, dtype \\ :f32), do: NIF.call(:buffer_zeros, [shape, dtype])

  @doc """
  The contents, copied, after the commands submitted so far that write the buffer.

      iex> {:ok, buffer} = ExCubecl.buffer([1, 2, 3], [3], :u8)
      iex> ExCubecl.read(buffer)
      {:ok, <<1, 2, 3>>}
  """
  @spec read(buffer()) :: {:ok, binary()} | {:error, term()}
  def read(buffer), do: read(buffer, :snapshot_copy)

  @doc """
  Like `read/1`, but the binary is the buffer's own memory where the device allows that, and nothing is copied.

  The binary never changes: commands that write the buffer later get other memory for it. It keeps the memory from being
  reused as long as it, or a part of it, is referenced; `:binary.copy/1` ends that.

      iex> {:ok, buffer} = ExCubecl.buffer([1, 2, 3], [3], :u8)
      iex> {:ok, before} = ExCubecl.read_binary(buffer)
      iex> {:ok, _} = ExCubecl.run_kernel("scale", [buffer], buffer, %{factor: 2})
      iex> {before, ExCubecl.read!(buffer)}
      {<<1, 2, 3>>, <<2, 4, 6>>}
  """
  @spec read_binary(buffer()) :: {:ok, binary()} | {:error, term()}
  def read_binary(buffer), do: read(buffer, :snapshot_share)

  # The snapshot keeps the memory as it is, so that waiting for the commands before it is enough.
  defp read(buffer, how) do
    with {snapshot, last_write, _bytes} <- NIF.snapshot_new(buffer) do
      # If that fails, the read says why.
      _ = if last_write > 0, do: NIF.wait(last_write, :infinity)
      apply(NIF, how, [snapshot])
    end
  end

  @doc """
  Like `read/1`, but gives the binary itself, and raises if that fails.

      iex> ExCubecl.read!(ExCubecl.buffer!([7], [1], :u8))
      <<7>>
  """
  @spec read!(buffer()) :: binary()
  def read!(buffer) do
    case read(buffer) do
      {:ok, data} -> data
      {:error, reason} -> raise "ExCubecl.read!/1 failed: #{reason}"
    end
  end

  @doc """
  The extents.

      iex> ExCubecl.shape(ExCubecl.buffer!([1.0, 2.0], [2, 1]))
      {:ok, [2, 1]}
  """
  @spec shape(buffer()) :: {:ok, [non_neg_integer()]}
  def shape(buffer), do: {:ok, elem(NIF.buffer_info(buffer), 0)}

  @doc """
  The element type, as text.

      iex> ExCubecl.dtype(ExCubecl.buffer!([1.0], [1]))
      {:ok, "f32"}
  """
  @spec dtype(buffer()) :: {:ok, String.t()}
  def dtype(buffer), do: {:ok, elem(NIF.buffer_info(buffer), 1)}

  @doc """
  The size in bytes.

      iex> ExCubecl.size(ExCubecl.buffer!([1.0, 2.0], [2], :f64))
      {:ok, 16}
  """
  @spec size(buffer()) :: {:ok, non_neg_integer()}
  def size(buffer), do: {:ok, elem(NIF.buffer_info(buffer), 2)}

  @doc """
  Gives the memory back now rather than when the buffer is garbage. Commands in flight still finish. Later uses are
  `{:error, reason}`; freeing it again does nothing.

      iex> buffer = ExCubecl.buffer!([1.0], [1])
      iex> ExCubecl.free(buffer)
      :ok
      iex> ExCubecl.read(buffer)
      {:error, "the buffer has been freed"}
  """
  @spec free(buffer()) :: :ok
  def free(buffer), do: NIF.buffer_free(buffer)

  ## Kernels

  @doc """
  The names of the kernels.

      iex> {:ok, names} = ExCubecl.kernels()
      iex> "elementwise_add" in names and "relu" in names
      true
  """
  @spec kernels() :: {:ok, [String.t()]} | {:error, String.t()}
  def kernels, do: NIF.call_in_background(:kernel_names, [])

  @doc """
  Defines an element-wise kernel by an expression of its inputs and parameters, for every device. `params` has the
  defaults of the parameters. `include/tessera/kernel.hpp` has the grammar.

      iex> ExCubecl.define_kernel("soft_clip", ["x"], "x / (1 + abs(x) * hardness)", %{hardness: 1})
      :ok
      iex> {:ok, x} = ExCubecl.buffer([-1.0, 3.0], [2])
      iex> {:ok, _} = ExCubecl.run_kernel("soft_clip", [x], x)
      iex> ExCubecl.read(x)
      {:ok, <<-0.5::float-32-native, 0.75::float-32-native>>}
  """
  @spec define_kernel(String.t(), [String.t()], String.t(), params()) :: :ok | {:error, String.t()}
  def define_kernel(name, inputs, expression, params \\ %{}) do
    NIF.call_in_background(:define_kernel, [name, inputs, expression, Params.encode(params)])
  end

  @doc """
  Runs a kernel, waits until it has finished, and gives the number of its command.

  The output has to have the type and the shape of the result. A wrong call changes nothing.

      iex> {:ok, x} = ExCubecl.buffer([-2.0, 2.0], [2])
      iex> {:ok, y} = ExCubecl.zeros([2])
      iex> {:ok, command} = ExCubecl.run_kernel("relu", [x], y, %{slope: 0.5})
      iex> {is_integer(command), ExCubecl.read!(y)}
      {true, <<-1.0::float-32-native, 2.0::float-32-native>>}
      iex> {:error, reason} = ExCubecl.run_kernel("rellu", [x], y)
      iex> reason =~ "rellu"
      true
  """
  @spec run_kernel(kernel(), [buffer()], buffer(), params()) :: {:ok, command_id()} | {:error, term()}
  def run_kernel(kernel, inputs, output, params \\ %{}) do
    with {:ok, id} <- submit(kernel, inputs, output, params, []),
         :ok <- wait(id) do
      {:ok, id}
    end
  end

  ## Commands

  @doc """
  Names a copy of a pipeline as it is now, so that `submit/1` can run it. A name can be defined again.

      iex> {:ok, x} = ExCubecl.buffer([-2.0, 2.0], [2])
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], x)
      iex> ExCubecl.define_command("clean_up", pipeline)
      :ok
      iex> {:ok, command} = ExCubecl.submit("clean_up")
      iex> ExCubecl.wait(command)
      :ok
  """
  @spec define_command(String.t(), pipeline()) :: :ok | {:error, String.t()}
  def define_command(name, pipeline), do: NIF.call_in_background(:define_command, [name, pipeline])

  @doc """
  Submits a named command and gives its number at once. See `define_command/2`, and `submit/5` for the options.

      iex> ExCubecl.submit("nothing of that name")
      {:error, ~s(no command is named "nothing of that name": define_command names a pipeline)}
  """
  @spec submit(String.t(), [option()]) :: {:ok, command_id()} | {:error, term()}
  def submit(name, options \\ []) do
    {stream, notify} = options(options)

    with {:ok, id, _stages} <- NIF.submit_to(:submit_command, [name, stream, notify], stream) do
      {:ok, id}
    end
  end

  @doc """
  Submits a kernel and gives the number of its command at once.

  Options:

    * `:notify`, a process that gets `{:tessera, id, :completed | {:failed, reason} | :cancelled}` when it has finished
    * `:stream`, see `stream/1`; the process waits while the stream is full

  A wrong call, or one that a full stream rejects, is `{:error, reason}`.

      iex> {:ok, x} = ExCubecl.buffer([1.0, 2.0], [2])
      iex> {:ok, y} = ExCubecl.zeros([2])
      iex> {:ok, command} = ExCubecl.submit("scale", [x], y, %{factor: 3}, notify: self())
      iex> receive do: ({:tessera, ^command, result} -> result)
      :completed
  """
  @spec submit(kernel(), [buffer()], buffer(), params(), [option()]) :: {:ok, command_id()} | {:error, term()}
  def submit(kernel, inputs, output, params \\ %{}, options \\ []) do
    {stream, notify} = options(options)
    NIF.submit_to(:submit, [name(kernel), inputs, output, Params.encode(params), stream, notify], stream)
  end

  @doc """
  The status of a command. Never waits.

      iex> {:ok, x} = ExCubecl.buffer([1.0], [1])
      iex> {:ok, command} = ExCubecl.run_kernel("relu", [x], x)
      iex> ExCubecl.poll(command)
      {:ok, :completed}
  """
  @spec poll(command_id()) :: {:ok, status()} | {:error, String.t()}
  def poll(id), do: NIF.poll(id)

  @doc """
  Waits until a command has finished: `:ok`, or the reason why it failed or was cancelled. After `timeout` milliseconds
  it is `{:error, :timeout}`, and the command carries on.

      iex> {:ok, x} = ExCubecl.buffer([1.0], [1])
      iex> {:ok, command} = ExCubecl.submit("relu", [x], x)
      iex> ExCubecl.wait(command, 60_000)
      :ok
  """
  @spec wait(command_id(), timeout()) :: :ok | {:error, term()}
  def wait(id, timeout \\ :infinity)

  def wait(id, timeout) when timeout == :infinity or (is_integer(timeout) and timeout in 0..4_294_967_295) do
    NIF.wait(id, timeout)
  end

  def wait(_id, timeout) do
    raise ArgumentError, "the timeout must be milliseconds or :infinity, got #{inspect(timeout)}"
  end

  @doc """
  Cancels a command: `{:ok, true}` if it had not started, and will not. Otherwise `{:ok, false}`: one that runs stops at
  the next opportunity or still completes, and one that has finished does not change.

      iex> {:ok, x} = ExCubecl.buffer([1.0], [1])
      iex> {:ok, command} = ExCubecl.run_kernel("relu", [x], x)
      iex> ExCubecl.cancel(command)
      {:ok, false}
  """
  @spec cancel(command_id()) :: {:ok, boolean()} | {:error, String.t()}
  def cancel(id), do: NIF.cancel(id)

  ## Streams

  @doc """
  A queue with a policy. Commands of a stream run in order. Streams are never needed for correct results.

  Options:

    * `:priority`: `:high`, `:normal` or `:low`; of the commands that are ready, those with a higher one start first
    * `:max_in_flight`: how many commands may be unfinished; 0, the default, is no limit
    * `:when_full`: `:block` lets the submitting process wait, `:reject` gives it `{:error, reason}`, `:drop_oldest`
      cancels the oldest command that has not started
    * `:deadline`: milliseconds after which a command that has not started is cancelled; 0, the default, is none
    * `:in_order`: whether each command waits for the one before it, `true` by default

      iex> {:ok, frames} = ExCubecl.stream(priority: :high, max_in_flight: 2, when_full: :drop_oldest, deadline: 16)
      iex> ExCubecl.in_flight(frames)
      {:ok, 0}
  """
  @spec stream(keyword()) :: {:ok, stream()} | {:error, String.t()}
  def stream(options \\ []) do
    defaults = [priority: :normal, max_in_flight: 0, when_full: :block, deadline: 0, in_order: true]
    options = merge(options, defaults, "stream")
    NIF.call_in_background(:stream_new, Enum.map(Keyword.keys(defaults), &Keyword.fetch!(options, &1)))
  end

  @doc """
  How many commands of a stream have not finished.

      iex> {:ok, stream} = ExCubecl.stream()
      iex> ExCubecl.in_flight(stream)
      {:ok, 0}
  """
  @spec in_flight(stream()) :: {:ok, non_neg_integer()} | {:error, String.t()}
  def in_flight(stream), do: NIF.stream_in_flight(stream)

  ## Pipelines

  @doc """
  Makes an empty pipeline. It is freed by `pipeline_free/1`, or with the process that made it.

      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_run(pipeline)
      {:ok, []}
  """
  @spec pipeline() :: {:ok, pos_integer()}
  def pipeline, do: NIF.pipeline_new(true)

  @doc """
  Adds a stage. It is checked when the pipeline runs.

      iex> {:ok, x} = ExCubecl.buffer([4.0], [1])
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_add(pipeline, "sqrt", [x], x)
      :ok
  """
  @spec pipeline_add(pipeline(), kernel(), [buffer()], buffer(), params()) :: :ok | {:error, String.t()}
  def pipeline_add(pipeline, kernel, inputs, output, params \\ %{}) do
    NIF.pipeline_add(pipeline, :run_kernel, name(kernel), inputs, [output], Params.encode(params), nil, nil)
  end

  @doc """
  Adds a stage that is described by an `ExCubecl.Command`.

      iex> {:ok, x} = ExCubecl.buffer([4.0], [1])
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_add_struct(pipeline, ExCubecl.Command.run_kernel("sqrt", [x], x))
      :ok
  """
  @spec pipeline_add_struct(pipeline(), Command.t()) :: :ok | {:error, String.t()}
  def pipeline_add_struct(pipeline, %Command{} = command) do
    pipeline_add(pipeline, command.kernel, command.inputs, command.output, command.params)
  end

  def pipeline_add_struct(_pipeline, other) do
    raise ArgumentError, "expected an ExCubecl.Command, got #{inspect(other)}"
  end

  @doc """
  Runs all stages and waits until they have finished. Gives a number for each stage, all of which have completed.

  If a stage is wrong, nothing runs, and the reason names it. Stages are fused where possible, and those that do not
  depend on each other run at the same time.

      iex> {:ok, x} = ExCubecl.buffer([-4.0, 4.0], [2])
      iex> {:ok, y} = ExCubecl.zeros([2])
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], y)
      iex> :ok = ExCubecl.pipeline_add(pipeline, "sqrt", [y], y)
      iex> {:ok, [first, second]} = ExCubecl.pipeline_run(pipeline)
      iex> {ExCubecl.poll(first), ExCubecl.wait(second), ExCubecl.read!(y)}
      {{:ok, :completed}, :ok, <<0.0::float-32-native, 2.0::float-32-native>>}
  """
  @spec pipeline_run(pipeline()) :: {:ok, [command_id()]} | {:error, term()}
  def pipeline_run(pipeline) do
    with {:ok, id, stages} <- NIF.call(:pipeline_submit, [pipeline, nil, nil]),
         :ok <- wait(id) do
      NIF.completed_stages(stages)
    end
  end

  @doc """
  Submits all stages as one command and gives its number at once. The options are those of `submit/5`.

      iex> {:ok, x} = ExCubecl.buffer([-4.0, 4.0], [2])
      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], x)
      iex> {:ok, command} = ExCubecl.pipeline_submit(pipeline)
      iex> ExCubecl.wait(command)
      :ok
  """
  @spec pipeline_submit(pipeline(), [option()]) :: {:ok, command_id()} | {:error, term()}
  def pipeline_submit(pipeline, options \\ []) do
    {stream, notify} = options(options)

    with {:ok, id, _stages} <- NIF.submit_to(:pipeline_submit, [pipeline, stream, notify], stream) do
      {:ok, id}
    end
  end

  @doc """
  Frees a pipeline. Runs in flight still finish.

      iex> {:ok, pipeline} = ExCubecl.pipeline()
      iex> ExCubecl.pipeline_free(pipeline)
      :ok
      iex> {:error, _reason} = ExCubecl.pipeline_free(pipeline)
  """
  @spec pipeline_free(pipeline()) :: :ok | {:error, String.t()}
  def pipeline_free(pipeline), do: NIF.pipeline_free(pipeline)

  defp name(kernel) when is_atom(kernel) and not is_nil(kernel), do: Atom.to_string(kernel)
  defp name(kernel), do: kernel

  defp options([]), do: {nil, nil}
  defp options([{:notify, pid}]), do: {nil, pid}

  defp options(options) do
    options = merge(options, [stream: nil, notify: nil], "submit")
    {options[:stream], options[:notify]}
  end

  defp merge(options, defaults, function) do
    unless Keyword.keyword?(options),
      do: raise(ArgumentError, "options must be a keyword list, got #{inspect(options)}")

    case Keyword.keys(options) -- Keyword.keys(defaults) do
      [] -> Keyword.merge(defaults, options)
      [unknown | _] -> raise ArgumentError, "#{function} has no option #{inspect(unknown)}"
    end
  end
end
