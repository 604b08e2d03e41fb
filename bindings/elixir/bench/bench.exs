# mix run bench/bench.exs, or `make bench-elixir`: what Elixir adds, as ratios to measurements of the same run.

defmodule Baseline do
  # Compiles baseline.cpp beside the NIF and loads it.
  def load do
    priv = :code.priv_dir(:tessera)
    [compiler | flags] = String.split(File.read!(Path.join(priv, "tessera_nif.so.command")), " ")
    libraries = File.read!(Path.join(priv, "tessera_nif.so.libraries"))
    target = Path.join(priv, "baseline")
    source = Path.join(__DIR__, "baseline.cpp")
    arguments = flags ++ ["-shared", "-o", target <> ".so", source] ++ String.split(libraries, " ")
    {_, 0} = System.cmd(compiler, arguments)
    :ok = :erlang.load_nif(String.to_charlist(target), 0)
  end

  def send_to_self(_), do: :erlang.nif_error(:not_loaded)
  def memcpy_ns(_), do: :erlang.nif_error(:not_loaded)
  def thousand_runs_ns, do: :erlang.nif_error(:not_loaded)
end

defmodule Bench do
  # Microseconds a call, the least of several rounds.
  def best(rounds, calls, function) do
    times =
      for _ <- 1..rounds do
        start = System.monotonic_time(:nanosecond)
        repeat(calls, function)
        System.monotonic_time(:nanosecond) - start
      end

    Enum.min(times) / calls / 1000
  end

  defp repeat(0, _), do: :ok

  defp repeat(count, function) do
    function.()
    repeat(count - 1, function)
  end

  def report(what, ours, theirs, goal) do
    IO.puts(String.pad_trailing(what, 58) <> "#{format(ours)} µs, #{theirs}   (goal: #{goal})")
  end

  def format(number), do: :erlang.float_to_binary(number / 1, decimals: 2)

  # How many of a thousand ticks come more than 5 ms late while 1,000 commands of some 5 ms are in flight, and 100
  # processes wait for them.
  def late_ticks do
    size = command_of_5_ms(128)
    matrices = for _ <- 1..4, do: ExCubecl.buffer!(:binary.copy(<<0::32>>, size * size), [size, size])
    inputs = for _ <- 1..2, do: ExCubecl.buffer!(:binary.copy(<<0::32>>, size * size), [size, size])
    ids = for i <- 1..1000, do: elem(ExCubecl.submit("matmul", inputs, Enum.at(matrices, rem(i, 4))), 1)
    waiting = for part <- Enum.chunk_every(ids, 10), do: Task.async(fn -> Enum.each(part, &ExCubecl.wait/1) end)
    late = Enum.count(tick(1000), &(&1 > 5000))
    in_flight = Enum.count(ids, &(ExCubecl.poll(&1) not in [{:ok, :completed}]))
    Task.await_many(waiting, :infinity)
    {late, in_flight, size}
  end

  # The smallest of some matrix products that takes 5 ms.
  defp command_of_5_ms(size) do
    [a, b, c] = for _ <- 1..3, do: ExCubecl.buffer!(:binary.copy(<<0::32>>, size * size), [size, size])
    time = best(3, 1, fn -> {:ok, _} = ExCubecl.run_kernel("matmul", [a, b], c) end)
    if time >= 5000 or size >= 4096, do: size, else: command_of_5_ms(size + 128)
  end

  # How many microseconds each tick comes late.
  defp tick(0), do: []

  defp tick(count) do
    start = System.monotonic_time(:microsecond)
    Process.sleep(1)
    # Process.sleep(1) ends up to a millisecond after the first.
    [System.monotonic_time(:microsecond) - start - 2000 | tick(count - 1)]
  end
end

Baseline.load()
{:ok, info} = ExCubecl.device_info()
IO.puts("#{info.device_name}, #{info.backend}")
x = ExCubecl.buffer!([1.0, -1.0], [2])
{:ok, _} = ExCubecl.run_kernel("relu", [x], x)
this = self()

submit =
  Bench.best(20, 2000, fn ->
    {:ok, id} = ExCubecl.submit("relu", [x], x, %{}, notify: this)
    receive do: ({:tessera, ^id, :completed} -> :ok)
  end)

bare =
  Bench.best(20, 2000, fn ->
    :ok = Baseline.send_to_self({:tessera, 1, :completed})
    receive do: ({:tessera, 1, :completed} -> :ok)
  end)

times = "a bare NIF #{Bench.format(bare)}: #{Bench.format(submit / bare)} times"
Bench.report("submit and message of a tiny kernel", submit, times, "4 times")

run = Bench.best(20, 2000, fn -> {:ok, _} = ExCubecl.run_kernel("relu", [x], x) end)
native = Baseline.thousand_runs_ns() / 1_000_000
Bench.report("run_kernel of a tiny kernel", run, "in C #{Bench.format(native)}", "5 µs more")

bytes = 64 * 1024 * 1024
binary = :binary.copy(<<1>>, bytes)
memcpy = Baseline.memcpy_ns(binary) / 1000
{:ok, large} = ExCubecl.buffer(binary, [bytes], :u8)

for {what, function} <- [
      {"a 64 MiB binary into a buffer", fn -> ExCubecl.free(ExCubecl.buffer!(binary, [bytes], :u8)) end},
      {"and back, copied", fn -> ExCubecl.read!(large) && :erlang.garbage_collect() end}
    ] do
  time = Bench.best(10, 1, function)
  times = "memcpy #{Bench.format(memcpy)}: #{Bench.format(time / memcpy)} times"
  Bench.report(what, time, times, "1.15 times")
end

share = Bench.best(20, 100, fn -> {:ok, _} = ExCubecl.read_binary(large) end)
Bench.report("read_binary of 64 MiB", share, "", "20 µs")

{late, in_flight, size} = Bench.late_ticks()

IO.puts(
  "ticks late by more than 5 ms, with 1,000 products of #{size}² in flight: #{late} of 1,000" <>
    " (#{in_flight} were in flight at the end; goal: 1)"
)
