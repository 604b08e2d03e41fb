defmodule MisuseTest do
  # Every function with every kind of term: an error or an exception, and never the end of the VM.
  use TesseraCase, async: true

  @modules [
    ExCubecl,
    ExCubecl.Command,
    ExCubecl.NIF,
    Dala.Gpu.Compute,
    Dala.Gpu.Compute.Buffer,
    Dala.Gpu.Compute.Pipeline
  ]

  # They change what other tests rely on, wait for ever, or were tried by other tests.
  @left_out [power_level: 1, module_info: 0, module_info: 1, load: 0, call: 2, call_in_background: 2] ++
              [submit_to: 3, wait: 2, set_observer: 1, __struct__: 0, __struct__: 1, hold: 1, from_nx: 1, to_nx: 3]

  defp terms do
    buffer = ExCubecl.buffer!([1.0, 2.0], [2])
    freed = ExCubecl.buffer!([1.0], [1])
    ExCubecl.free(freed)
    {:ok, stream} = ExCubecl.stream()
    {:ok, pipeline} = ExCubecl.pipeline()
    {snapshot, _, _} = NIF.snapshot_new(buffer)
    dala = Dala.Gpu.Compute.buffer([1.0], {1}, :f32)

    [nil, true, :f32, :run_kernel, :nonsense, 0, 1, -1, 1.5, 18_446_744_073_709_551_616, -9_223_372_036_854_775_809] ++
      [
        "",
        "relu",
        "a\0b",
        <<255, 254>>,
        <<1::3>>,
        :binary.copy(<<1>>, 100_000),
        [],
        [1, 2],
        [1 | 2],
        [nil],
        [[]],
        'abc'
      ] ++
      [{}, {1, 2}, %{}, %{a: 1}, %{op: :run_kernel}, [a: 1], self(), make_ref(), fn -> :ok end, &ExCubecl.poll/1] ++
      [buffer, freed, stream, pipeline, snapshot, dala, Dala.Gpu.Compute.pipeline()] ++
      [[buffer], [buffer, freed], [dala]] ++
      [%Dala.Gpu.Compute.Buffer{ref: nil, shape: 5, dtype: :x}, %Dala.Gpu.Compute.Pipeline{}, 999_999_999]
  end

  defp try_call(module, function, arguments) do
    apply(module, function, arguments)
  rescue
    _ -> :raised
  catch
    _, _ -> :thrown
  end

  for module <- @modules do
    test "of #{inspect(module)}" do
      module = unquote(module)
      seed_random()
      Code.ensure_loaded!(module)
      terms = terms()

      for {function, arity} <- module.__info__(:functions), {function, arity} not in @left_out do
        for arguments <- sample(terms, arity) do
          try_call(module, function, arguments)
        end
      end

      x = ExCubecl.buffer!([-1.0], [1])
      assert {:ok, _} = ExCubecl.run_kernel("relu", [x], x)
      assert ExCubecl.read!(x) == floats([0.0])
    end
  end

  # Each term in each place, among random others, and some more at random.
  defp sample(_terms, 0), do: [[]]
  defp sample(terms, 1), do: Enum.map(terms, &[&1])

  defp sample(terms, arity) do
    systematic =
      for place <- 0..(arity - 1), term <- terms do
        List.replace_at(random(terms, arity), place, term)
      end

    systematic ++ for(_ <- 1..rounds(500), do: random(terms, arity))
  end

  defp random(terms, arity), do: for(_ <- 1..arity, do: Enum.random(terms))

  test "wrong types raise ArgumentErrors that name the culprit" do
    x = ExCubecl.buffer!([1.0], [1])

    for {call, culprit} <- [
          {fn -> ExCubecl.buffer(5, [1]) end, "the data must be a list or a binary, got 5"},
          {fn -> ExCubecl.buffer([1.0], {1}) end, "the shape must be a list of integers"},
          {fn -> ExCubecl.buffer([1.0], [1.0]) end, "the shape must be integers, got 1.0"},
          {fn -> ExCubecl.buffer([1.0 | 2], [1]) end, "the data must be a proper list"},
          {fn -> ExCubecl.read(5) end, "the buffer must be a buffer, got 5"},
          {fn -> ExCubecl.read_binary(make_ref()) end, "the buffer must be a buffer"},
          {fn -> ExCubecl.shape(nil) end, "the buffer must be a buffer"},
          {fn -> ExCubecl.free(x |> List.wrap()) end, "the buffer must be a buffer"},
          {fn -> ExCubecl.run_kernel(5, [x], x) end, "the kernel's name must be a string, got 5"},
          {fn -> ExCubecl.run_kernel("a\0b", [x], x) end, "zero byte"},
          {fn -> ExCubecl.run_kernel("relu", x, x) end, "inputs must be a list of buffers"},
          {fn -> ExCubecl.run_kernel("relu", [x, :y], x) end, "input 1 must be a buffer, got y"},
          {fn -> ExCubecl.run_kernel("relu", [x], nil) end, "the output must be a buffer"},
          {fn -> ExCubecl.submit("relu", [x], x, %{}, notify: :me) end, "notify must be a local pid"},
          {fn -> ExCubecl.submit("relu", [x], x, %{}, stream: x) end, "the stream must be a stream"},
          {fn -> ExCubecl.submit("relu", [x], x, %{}, :now) end, "options must be a keyword list"},
          {fn -> ExCubecl.submit(5) end, "the command's name must be a string"},
          {fn -> ExCubecl.poll("1") end, "the command's number must be an integer"},
          {fn -> ExCubecl.poll(-1) end, "the command's number must be an integer from 0"},
          {fn -> ExCubecl.wait(:a) end, "the command's number must be an integer"},
          {fn -> ExCubecl.wait(1, -5) end, "the timeout must be"},
          {fn -> ExCubecl.wait(1, 1.5) end, "the timeout must be"},
          {fn -> ExCubecl.cancel(nil) end, "the command's number must be an integer"},
          {fn -> ExCubecl.pipeline_add("p", "relu", [x], x) end, "the pipeline must be a pipeline"},
          {fn -> ExCubecl.pipeline_run(nil) end, "the pipeline must be a pipeline"},
          {fn -> ExCubecl.pipeline_add_struct(1, :relu) end, "expected an ExCubecl.Command"},
          {fn -> ExCubecl.define_kernel(5, ["x"], "x") end, "the kernel's name must be a string"},
          {fn -> ExCubecl.define_kernel("k", "x", "x") end, "the inputs must be a list of names"},
          {fn -> ExCubecl.define_kernel("k", [:x], "x") end, "an input's name must be a string"},
          {fn -> ExCubecl.power_level(:turbo) end, "unsupported power level: turbo"},
          {fn -> ExCubecl.in_flight(x) end, "the stream must be a stream"}
        ] do
      error = assert_raise(ArgumentError, call)
      assert error.message =~ culprit
    end
  end

  test "references of one kind are not taken for another" do
    x = ExCubecl.buffer!([1.0], [1])
    {:ok, stream} = ExCubecl.stream()
    assert_raise ArgumentError, fn -> ExCubecl.read(stream) end
    assert_raise ArgumentError, fn -> ExCubecl.submit("relu", [stream], x) end
    assert_raise ArgumentError, fn -> NIF.snapshot_copy(x) end
    assert_raise ArgumentError, fn -> NIF.background(make_ref(), :submit, [x]) end
    assert_raise ArgumentError, fn -> NIF.background(make_ref(), :halt, []) end
  end
end
