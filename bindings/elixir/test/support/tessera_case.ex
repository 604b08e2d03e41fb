defmodule TesseraCase do
  @moduledoc false
  # What several tests need.
  use ExUnit.CaseTemplate

  alias ExCubecl.NIF

  using do
    quote do
      import TesseraCase
      alias ExCubecl.NIF
    end
  end

  # How many percent of their rounds repeated tests run: as tests/support/depth.hpp.
  def rounds(full) do
    depth = String.to_integer(System.get_env("TESSERA_TEST_DEPTH", "20"))
    max(1, div(full * depth, 100))
  end

  def seed_random do
    seed = String.to_integer(System.get_env("TESSERA_TEST_SEED", "1"))
    :rand.seed(:exsss, {seed, 2, 3})
  end

  def floats(list), do: for(x <- list, into: <<>>, do: <<x::float-32-native>>)

  # For a block of the documents.
  def handle_error(reason), do: raise(reason)
  def retry_later, do: :later

  # A buffer, and a hold on it: commands that use it wait until the hold is released.
  def held_buffer(values \\ [1.0]) do
    buffer = ExCubecl.buffer!(values, [length(values)])
    {:ok, hold} = NIF.hold(buffer)
    {buffer, hold}
  end

  # What can be counted about the device; other tests must not run meanwhile.
  def counts do
    :erlang.garbage_collect()
    {:ok, memory} = ExCubecl.memory()
    %{in_use: memory.in_use, buffers: memory.buffers, handles: NIF.live_handles()}
  end

  # The counts when the processes and commands of earlier tests have ended.
  def settled_counts(last \\ nil) do
    now = counts()
    if now == last, do: now, else: Process.sleep(50) && settled_counts(now)
  end

  # Until the counts are no more than these: memory is freed a little after the last command and process have ended.
  def await_counts(expected, tries \\ 600) do
    now = counts()

    cond do
      Enum.all?(now, fn {name, count} -> count <= expected[name] end) -> :ok
      tries == 0 -> ExUnit.Assertions.flunk("leaked: #{inspect(now)}, expected #{inspect(expected)}")
      true -> Process.sleep(20) && await_counts(expected, tries - 1)
    end
  end

  def await(condition, tries \\ 3000) do
    cond do
      condition.() -> :ok
      tries == 0 -> ExUnit.Assertions.flunk("it never became true")
      true -> Process.sleep(10) && await(condition, tries - 1)
    end
  end
end
