defmodule ExCubecl.Telemetry do
  @moduledoc """
  Handlers that are called at the end of every command, in the shape of the `:telemetry` package, which is not needed.

  The event is `[:tessera, :command, :stop]`. Its measurements are

    * `:duration` from the submission to the end, in native time units, as `:telemetry` has it

  and its metadata

    * `:id` of the command
    * `:name` of the kernel or the named command; `"pipeline"` for a pipeline
    * `:status`: `:completed`, `:failed` or `:cancelled`
    * `:reason` why it failed, or `nil`

  To pass the events on to `:telemetry`:

      ExCubecl.Telemetry.attach("forward", [:tessera, :command, :stop], &__MODULE__.forward/4, nil)
      def forward(event, measurements, metadata, _), do: :telemetry.execute(event, measurements, metadata)
  """
  use GenServer
  require Logger

  @event [:tessera, :command, :stop]
  @type handler :: ([atom()], map(), map(), term() -> term())

  @doc """
  Calls `function` with the event, its measurements, its metadata and `config` whenever a command ends.

  Handlers run one after the other in a process of their own. One that fails is detached, and the failure is logged.

      iex> ExCubecl.Telemetry.attach("mine", [:tessera, :command, :stop], fn _, _, _, _ -> :ok end, nil)
      :ok
      iex> ExCubecl.Telemetry.attach("mine", [:tessera, :command, :stop], fn _, _, _, _ -> :ok end, nil)
      {:error, :already_exists}
      iex> ExCubecl.Telemetry.detach("mine")
      :ok
  """
  @spec attach(term(), [atom()], handler(), term()) :: :ok | {:error, :already_exists}
  def attach(id, @event, function, config) when is_function(function, 4) do
    GenServer.call(__MODULE__, {:attach, id, function, config})
  end

  def attach(_id, event, function, _config) do
    if event != @event do
      raise ArgumentError, "the only event is #{inspect(@event)}, got #{inspect(event)}"
    else
      raise ArgumentError, "the handler must be a function of four arguments, got #{inspect(function)}"
    end
  end

  @doc """
  Removes a handler.

      iex> ExCubecl.Telemetry.detach("nobody")
      {:error, :not_found}
  """
  @spec detach(term()) :: :ok | {:error, :not_found}
  def detach(id), do: GenServer.call(__MODULE__, {:detach, id})

  @doc false
  def start_link(_), do: GenServer.start_link(__MODULE__, nil, name: __MODULE__)

  @impl true
  def init(_) do
    {:ok, observe(%{})}
  end

  @impl true
  def handle_call({:attach, id, _, _}, _from, handlers) when is_map_key(handlers, id) do
    {:reply, {:error, :already_exists}, handlers}
  end

  def handle_call({:attach, id, function, config}, _from, handlers) do
    {:reply, :ok, observe(Map.put(handlers, id, {function, config}))}
  end

  def handle_call({:detach, id}, _from, handlers) when is_map_key(handlers, id) do
    {:reply, :ok, observe(Map.delete(handlers, id))}
  end

  def handle_call({:detach, _}, _from, handlers), do: {:reply, {:error, :not_found}, handlers}

  @impl true
  def handle_info({:command_finished, id, name, nanoseconds, outcome}, handlers) do
    {status, reason} =
      case outcome do
        {:failed, reason} -> {:failed, reason}
        status -> {status, nil}
      end

    measurements = %{duration: System.convert_time_unit(nanoseconds, :nanosecond, :native)}
    metadata = %{id: id, name: name, status: status, reason: reason}
    {:noreply, Enum.reduce(handlers, handlers, &call(&1, measurements, metadata, &2))}
  end

  def handle_info(_, handlers), do: {:noreply, handlers}

  # Commands are told to this process only while somebody wants to know.
  defp observe(handlers) do
    ExCubecl.NIF.set_observer(if(handlers == %{}, do: nil, else: self()))
    handlers
  rescue
    # The NIF is not loaded: there are no commands.
    ErlangError -> handlers
  end

  defp call({id, {function, config}}, measurements, metadata, handlers) do
    function.(@event, measurements, metadata, config)
    handlers
  catch
    kind, reason ->
      Logger.error(
        "the handler #{inspect(id)} failed and is detached: " <> Exception.format(kind, reason, __STACKTRACE__)
      )

      observe(Map.delete(handlers, id))
  end
end
