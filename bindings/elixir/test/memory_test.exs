defmodule MemoryTest do
  # Counts the device's memory and the library's handles, so nothing else may run meanwhile.
  use TesseraCase, async: false

  # In a process of its own, whose memory is freed with it.
  defp in_process(function) do
    Task.await(Task.async(function), :infinity)
  end

  # Kilobytes of the whole VM.
  defp resident do
    [_, kilobytes] = Regex.run(~r/VmRSS:\s+(\d+) kB/, File.read!("/proc/self/status"))
    String.to_integer(kilobytes)
  end

  test "buffers and commands made and dropped leave memory flat" do
    make = fn index ->
      x = ExCubecl.buffer!([1.0, -1.0], [2])
      {:ok, id} = ExCubecl.submit("relu", [x], x)
      # So that a slow device has no more than that to do at once.
      if rem(index, 100) == 0, do: :ok = ExCubecl.wait(id)
    end

    before = settled_counts()
    in_process(fn -> Enum.each(1..100_000, make) end)
    await_counts(before)
    kilobytes = resident()
    in_process(fn -> Enum.each(1..100_000, make) end)
    await_counts(before)
    # The counts are of the device and the library; this is of what the NIF keeps.
    assert resident() - kilobytes < 16_384
  end

  test "everything is freed with the process that held it" do
    before = settled_counts()

    in_process(fn ->
      x = ExCubecl.buffer!([1.0], [1])
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], x)
      {:ok, _} = ExCubecl.pipeline_run(pipeline)
      dala = Dala.Gpu.Compute.pipeline()
      Dala.Gpu.Compute.pipeline_add(dala, %{op: :run_kernel, kernel: :relu, inputs: [x], output: x, params: %{}})
      :ok = Dala.Gpu.Compute.pipeline_run(dala)
      {:ok, _binary} = ExCubecl.read_binary(x)
      {:ok, stream} = ExCubecl.stream(max_in_flight: 1)
      {:ok, _} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
    end)

    await_counts(before)
  end

  test "a pipeline ends with its process, and not before" do
    test = self()

    owner =
      spawn(fn ->
        send(test, ExCubecl.pipeline())
        receive do: (:stop -> :ok)
      end)

    assert_receive {:ok, pipeline}, 60_000
    assert ExCubecl.pipeline_run(pipeline) == {:ok, []}
    send(owner, :stop)
    await(fn -> match?({:error, "no pipeline has the number" <> _}, ExCubecl.pipeline_run(pipeline)) end)
  end

  test "free gives memory back at once, also twice and with commands in flight" do
    before = settled_counts()
    {x, hold} = held_buffer(List.duplicate(1.0, 1000))
    {:ok, id} = ExCubecl.submit("relu", [x], x)
    assert ExCubecl.free(x) == :ok
    assert ExCubecl.free(x) == :ok
    assert ExCubecl.shape(x) == {:ok, [1000]}
    :ok = NIF.release_hold(hold)
    assert ExCubecl.wait(id) == :ok
    await_counts(before)
    assert is_reference(x) and is_reference(hold)
  end

  test "a binary without a copy stays as it was, whatever is written, freed or collected" do
    before = settled_counts()
    bytes = 1_000_000

    in_process(fn ->
      x = ExCubecl.buffer!(:binary.copy(<<1>>, bytes), [bytes], :u8)
      {:ok, used} = ExCubecl.memory()
      {:ok, ones} = ExCubecl.read_binary(x)
      {:ok, same} = ExCubecl.read_binary(x)
      {:ok, after_reading} = ExCubecl.memory()
      assert after_reading.in_use == used.in_use or System.get_env("TESSERA_DEVICE", "cpu") != "cpu"

      # A kernel in place, a pipeline that reads before it writes, and one that only writes.
      {:ok, _} = ExCubecl.run_kernel("scale", [x], x, %{factor: 2})
      {:ok, twos} = ExCubecl.read_binary(x)
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "scale", [x], x, %{factor: 2})
      {:ok, _} = ExCubecl.pipeline_run(pipeline)
      {:ok, fours} = ExCubecl.read_binary(x)
      {:ok, _} = ExCubecl.pipeline_run(pipeline)
      {:ok, eights} = ExCubecl.read_binary(x)
      ExCubecl.free(x)
      :erlang.garbage_collect()

      for {binary, byte} <- [{ones, 1}, {same, 1}, {twos, 2}, {fours, 4}, {eights, 8}] do
        assert binary == :binary.copy(<<byte>>, bytes)
      end
    end)

    await_counts(before)
  end

  test "a wrong call does not cost a buffer its contents while a binary shows them" do
    x = ExCubecl.buffer!([1.0, 2.0], [2])
    {:ok, binary} = ExCubecl.read_binary(x)
    assert {:error, _} = ExCubecl.run_kernel("nothing", [x], x)
    {:ok, stream} = ExCubecl.stream(max_in_flight: 1, when_full: :reject)
    {gate, hold} = held_buffer()
    {:ok, _} = ExCubecl.submit("relu", [gate], gate, %{}, stream: stream)
    assert {:error, _} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
    assert {:error, _} = ExCubecl.run_kernel("relu", [x], x, %{slope: "steep"})
    :ok = NIF.release_hold(hold)
    assert ExCubecl.read!(x) == binary
  end

  test "killing processes at random leaks nothing" do
    seed_random()
    before = settled_counts()

    in_process(fn ->
      for _ <- 1..rounds(10_000) do
        pid = spawn(fn -> work(:rand.uniform(1_000_000)) end)
        # Sooner or later in its life.
        for _ <- 1..:rand.uniform(2000), do: :erlang.yield()
        Process.exit(pid, :kill)
      end
    end)

    await_counts(before)
    x = ExCubecl.buffer!([-1.0], [1])
    assert {:ok, _} = ExCubecl.run_kernel("relu", [x], x)
    assert ExCubecl.read!(x) == floats([0.0])
  end

  # Everything that can be interrupted, in an order that differs.
  defp work(seed) do
    :rand.seed(:exsss, {seed, 1, 1})
    x = ExCubecl.buffer!(List.duplicate(1.0, 2000), [2000])
    y = ExCubecl.buffer!(:binary.copy(<<0::32>>, 2000), [2000])
    {:ok, stream} = ExCubecl.stream(max_in_flight: 1)
    {:ok, pipeline} = ExCubecl.pipeline()
    :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], y)
    kept = {x, y, stream, pipeline, ExCubecl.read_binary(x)}
    forever(kept)
  end

  defp forever({x, y, stream, pipeline, _binary} = kept) do
    case :rand.uniform(7) do
      1 -> ExCubecl.run_kernel("relu", [x], y)
      2 -> for _ <- 1..5, do: ExCubecl.submit("relu", [x], y, %{}, stream: stream, notify: self())
      3 -> ExCubecl.pipeline_run(pipeline)
      4 -> ExCubecl.read(y)
      5 -> ExCubecl.read_binary(y)
      6 -> with {:ok, id} <- ExCubecl.submit("relu", [x], y), do: ExCubecl.cancel(id)
      7 -> ExCubecl.pipeline_add(pipeline, "relu", [y], y)
    end

    forever(put_elem(kept, 4, ExCubecl.read_binary(y)))
  end

  test "a process that is killed while it waits leaves nothing behind" do
    before = settled_counts()
    {x, hold} = held_buffer()
    {:ok, id} = ExCubecl.submit("relu", [x], x)
    pids = for _ <- 1..50, do: spawn(fn -> ExCubecl.wait(id) end)
    readers = for _ <- 1..50, do: spawn(fn -> ExCubecl.read(x) end)
    for pid <- pids ++ readers, do: await(fn -> Process.info(pid, :status) == {:status, :waiting} end)
    for pid <- pids ++ readers, do: Process.exit(pid, :kill)
    :ok = NIF.release_hold(hold)
    assert ExCubecl.wait(id) == :ok
    ExCubecl.free(x)
    await_counts(before)
    assert is_reference(hold)
  end
end
