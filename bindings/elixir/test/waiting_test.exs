defmodule WaitingTest do
  # Nothing blocks a scheduler, and whoever waits is told. Held buffers keep commands from starting, without any clock.
  use TesseraCase, async: true

  test "a command that cannot start is pending until it can" do
    {x, hold} = held_buffer([-1.0])
    {:ok, id} = ExCubecl.submit("relu", [x], x, %{}, notify: self())
    assert ExCubecl.poll(id) == {:ok, :pending}
    assert Dala.Gpu.Compute.poll(id) == :pending
    assert ExCubecl.wait(id, 0) == {:error, :timeout}
    assert ExCubecl.wait(id, 1) == {:error, :timeout}
    refute_received _
    :ok = NIF.release_hold(hold)
    assert ExCubecl.wait(id) == :ok
    assert_receive {:tessera, ^id, :completed}, 60_000
    assert ExCubecl.read!(x) == floats([0.0])
    refute_received _
  end

  test "while processes wait for many commands, every scheduler and dirty scheduler runs others" do
    {x, hold} = held_buffer()
    ids = for _ <- 1..1000, do: elem(ExCubecl.submit("relu", [x], x), 1)

    waiting =
      for part <- Enum.chunk_every(ids, 10) do
        Task.async(fn -> Enum.map(part, &ExCubecl.wait/1) end)
      end

    reading = for _ <- 1..50, do: Task.async(fn -> ExCubecl.read_binary(x) end)
    for task <- waiting ++ reading, do: await(fn -> Process.info(task.pid, :status) == {:status, :waiting} end)

    # More processes than there are schedulers take turns, and more long copies than there are dirty schedulers.
    ring = spawn_ring(4 * System.schedulers_online(), self())
    for turn <- 1..1000, do: send(ring, turn)
    for turn <- 1..1000, do: assert_receive(^turn, 60_000)
    large = :binary.copy(<<1>>, 300_000)

    copies =
      for _ <- 1..(2 * System.schedulers_online() + 12) do
        Task.async(fn -> ExCubecl.read!(ExCubecl.buffer!(large, [300_000], :u8)) end)
      end

    for task <- copies, do: assert(Task.await(task, 60_000) == large)
    other = ExCubecl.buffer!([-3.0], [1])
    assert {:ok, _} = ExCubecl.run_kernel("relu", [other], other)
    assert Enum.all?(ids, &(ExCubecl.poll(&1) == {:ok, :pending}))

    :ok = NIF.release_hold(hold)
    for task <- waiting, do: assert(Task.await(task, 60_000) == List.duplicate(:ok, 10))
    for task <- reading, do: assert(Task.await(task, 60_000) == {:ok, floats([1.0])})
  end

  # A chain of processes that pass messages on to the last one.
  defp spawn_ring(0, last), do: last

  defp spawn_ring(count, last) do
    next = spawn_ring(count - 1, last)
    spawn_link(fn -> pass_on(next) end)
  end

  defp pass_on(next) do
    receive do
      message -> send(next, message)
    end

    pass_on(next)
  end

  test "a cancelled command says so everywhere" do
    {x, hold} = held_buffer()
    {:ok, id} = ExCubecl.submit("relu", [x], x, %{}, notify: self())
    waiting = Task.async(fn -> ExCubecl.wait(id) end)
    await(fn -> Process.info(waiting.pid, :status) == {:status, :waiting} end)
    assert ExCubecl.cancel(id) == {:ok, true}
    assert {:error, reason} = Task.await(waiting, 60_000)
    assert reason =~ "cancel"
    assert_receive {:tessera, ^id, :cancelled}, 60_000
    assert ExCubecl.poll(id) == {:ok, :cancelled}
    assert ExCubecl.wait(id) == {:error, reason}
    assert ExCubecl.cancel(id) == {:ok, false}
    :ok = NIF.release_hold(hold)
    # What it would have written cannot be read, until it is written again.
    assert {:error, _} = ExCubecl.read(x)
    y = ExCubecl.buffer!([4.0], [1])
    assert {:ok, _} = ExCubecl.run_kernel("sqrt", [y], x)
    assert ExCubecl.read!(x) == floats([2.0])
  end

  test "a command whose input is lost fails with the reason" do
    {x, hold} = held_buffer()
    y = ExCubecl.buffer!([1.0], [1])
    {:ok, first} = ExCubecl.submit("relu", [x], x)
    {:ok, second} = ExCubecl.submit("relu", [x], y, %{}, notify: self())
    {:ok, true} = ExCubecl.cancel(first)
    :ok = NIF.release_hold(hold)
    assert_receive {:tessera, ^second, {:failed, reason}}, 60_000
    assert reason =~ "cancel"
    assert ExCubecl.wait(second) == {:error, reason}
    assert ExCubecl.poll(second) == {:ok, :failed}
    assert {:error, _} = Dala.Gpu.Compute.poll(second)
    assert {:error, read} = ExCubecl.read(y)
    assert read =~ "cancel"
    assert_raise RuntimeError, ~r/^ExCubecl.read!\/1 failed/, fn -> ExCubecl.read!(y) end
  end

  test "reading waits for what was submitted before, and for nothing later" do
    {gate, hold} = held_buffer([2.0])
    x = ExCubecl.buffer!([1.0], [1])
    {:ok, _} = ExCubecl.submit("elementwise_add", [gate, x], x)
    reading = Task.async(fn -> {ExCubecl.read!(x), ExCubecl.read_binary(x)} end)
    await(fn -> Process.info(reading.pid, :status) == {:status, :waiting} end)
    :ok = NIF.release_hold(hold)
    assert Task.await(reading, 60_000) == {floats([3.0]), {:ok, floats([3.0])}}

    # The second command waits for the held buffer; the read, which came before it, does not.
    {:ok, hold} = NIF.hold(gate)
    snapshot = NIF.snapshot_new(x)
    {:ok, later} = ExCubecl.submit("elementwise_add", [gate, x], x)
    assert {reference, 0, 4} = snapshot
    assert NIF.snapshot_copy(reference) == {:ok, floats([3.0])}
    assert ExCubecl.poll(later) == {:ok, :pending}
    :ok = NIF.release_hold(hold)
    assert ExCubecl.wait(later) == :ok
    assert ExCubecl.read!(x) == floats([5.0])
  end

  test "a process may wait for the command of another, and several for the same" do
    {x, hold} = held_buffer()
    {:ok, id} = Task.await(Task.async(fn -> ExCubecl.submit("relu", [x], x) end))
    tasks = for _ <- 1..20, do: Task.async(fn -> ExCubecl.wait(id) end)
    :ok = NIF.release_hold(hold)
    assert Task.await_many(tasks, 60_000) == List.duplicate(:ok, 20)
  end

  describe "streams" do
    test "that block park the process until there is a place" do
      {x, hold} = held_buffer()
      {:ok, stream} = ExCubecl.stream(max_in_flight: 2)
      {:ok, first} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
      {:ok, _} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
      assert ExCubecl.in_flight(stream) == {:ok, 2}

      tasks = for _ <- 1..10, do: Task.async(fn -> ExCubecl.submit("relu", [x], x, %{}, stream: stream) end)
      # One that ends while it waits does not take the place of another.
      doomed = spawn(fn -> ExCubecl.submit("relu", [x], x, %{}, stream: stream) end)

      for pid <- [doomed | Enum.map(tasks, & &1.pid)],
          do: await(fn -> Process.info(pid, :status) == {:status, :waiting} end)

      Process.exit(doomed, :kill)
      assert ExCubecl.poll(first) == {:ok, :pending}
      :ok = NIF.release_hold(hold)

      for task <- tasks do
        assert {:ok, id} = Task.await(task, 60_000)
        assert ExCubecl.wait(id) == :ok
      end

      await(fn -> ExCubecl.in_flight(stream) == {:ok, 0} end)
    end

    test "that reject say so" do
      {x, hold} = held_buffer()
      {:ok, stream} = ExCubecl.stream(max_in_flight: 1, when_full: :reject)
      {:ok, first} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
      y = ExCubecl.buffer!([1.0], [1])
      assert {:error, reason} = ExCubecl.submit("relu", [y], y, %{}, stream: stream)
      assert reason =~ "stream"
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "relu", [y], y)
      assert {:error, _} = ExCubecl.pipeline_submit(pipeline, stream: stream)
      :ok = NIF.release_hold(hold)
      assert ExCubecl.wait(first) == :ok
    end

    test "that drop the oldest cancel it" do
      {x, hold} = held_buffer()
      {:ok, stream} = ExCubecl.stream(priority: :high, max_in_flight: 2, when_full: :drop_oldest)
      {:ok, first} = ExCubecl.submit("relu", [x], x, %{}, stream: stream, notify: self())
      {:ok, _} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
      y = ExCubecl.buffer!([1.0], [1])
      {:ok, third} = ExCubecl.submit("relu", [y], y, %{}, stream: stream)
      assert_receive {:tessera, ^first, :cancelled}, 60_000
      :ok = NIF.release_hold(hold)
      assert ExCubecl.wait(third) == :ok
    end

    test "with a deadline cancel what has not started" do
      {x, hold} = held_buffer()
      {:ok, stream} = ExCubecl.stream(deadline: 1)
      {:ok, id} = ExCubecl.submit("relu", [x], x, %{}, stream: stream)
      assert {:error, reason} = ExCubecl.wait(id)
      assert reason =~ "deadline"
      assert ExCubecl.poll(id) == {:ok, :cancelled}
      :ok = NIF.release_hold(hold)
    end

    test "have only the options that exist" do
      assert_raise ArgumentError, ~r/no option :speed/, fn -> ExCubecl.stream(speed: 1) end
      assert_raise ArgumentError, ~r/priority: urgent/, fn -> ExCubecl.stream(priority: :urgent) end
      assert_raise ArgumentError, ~r/max_in_flight/, fn -> ExCubecl.stream(max_in_flight: -1) end
      assert_raise ArgumentError, ~r/no option :notfy/, fn -> ExCubecl.submit("some", notfy: self()) end
    end
  end

  describe "telemetry" do
    test "tells every handler the end of each command, with its time" do
      test = self()
      event = [:tessera, :command, :stop]
      handler = fn ^event, measurements, metadata, config -> send(test, {config, measurements, metadata}) end
      :ok = ExCubecl.Telemetry.attach("one", event, handler, :one)
      :ok = ExCubecl.Telemetry.attach("two", event, handler, :two)
      {x, hold} = held_buffer()
      {:ok, id} = ExCubecl.submit("relu", [x], x)
      {:ok, true} = ExCubecl.cancel(id)
      :ok = NIF.release_hold(hold)
      y = ExCubecl.buffer!([1.0], [1])
      {:ok, done} = ExCubecl.run_kernel("relu", [y], y)
      failed = Dala.Gpu.Compute.submit(%{op: :explode})

      for config <- [:one, :two] do
        assert_receive {^config, %{duration: duration}, %{id: ^id, name: "relu", status: :cancelled, reason: nil}},
                       60_000

        assert is_integer(duration) and duration >= 0
        assert_receive {^config, _, %{id: ^done, status: :completed}}, 60_000
        assert_receive {^config, _, %{id: ^failed, status: :failed, reason: "stage 0" <> _}}, 60_000
      end

      assert ExCubecl.Telemetry.detach("one") == :ok
      assert ExCubecl.Telemetry.detach("two") == :ok
    end

    @tag :capture_log
    test "detaches a handler that fails" do
      :ok = ExCubecl.Telemetry.attach("bad", [:tessera, :command, :stop], fn _, _, _, _ -> raise "no" end, nil)
      y = ExCubecl.buffer!([1.0], [1])
      {:ok, _} = ExCubecl.run_kernel("relu", [y], y)
      await(fn -> ExCubecl.Telemetry.detach("bad") == {:error, :not_found} end)
    end

    test "has one event and functions of four arguments" do
      assert_raise ArgumentError, fn -> ExCubecl.Telemetry.attach("x", [:other], fn _, _, _, _ -> :ok end, nil) end

      assert_raise ArgumentError, fn ->
        ExCubecl.Telemetry.attach("x", [:tessera, :command, :stop], fn -> :ok end, nil)
      end
    end
  end
end
