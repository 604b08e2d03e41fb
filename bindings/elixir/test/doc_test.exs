defmodule DocTest do
  use ExUnit.Case, async: true

  doctest ExCubecl
  doctest ExCubecl.Command
  doctest ExCubecl.Telemetry
  doctest Dala.Gpu.Compute
  doctest Dala.Gpu.Compute.Buffer
  doctest Dala.Gpu.Compute.Pipeline
end
