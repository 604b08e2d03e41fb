defmodule ExCubeclDocTest do
  use ExUnit.Case, async: true

  doctest ExCubecl
  doctest ExCubecl.Command
  doctest ExCubecl.Telemetry
end
