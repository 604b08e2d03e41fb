defmodule ExCubecl.Application do
  @moduledoc false
  use Application

  @impl true
  def start(_type, _args) do
    Supervisor.start_link([ExCubecl.Telemetry], strategy: :one_for_one, name: ExCubecl.Supervisor)
  end
end
