defmodule ExCubeclTest do
  # What programs written for ExCubecl 0.7 rely on, and what goes wrong.
  use TesseraCase, async: true

  describe "buffers" do
    test "of every type come back as they went in" do
      for {dtype, values, binary} <- [
            {:f32, [1.5, -2], <<1.5::float-32-native, -2.0::float-32-native>>},
            {:f64, [1.5, -2], <<1.5::float-64-native, -2.0::float-64-native>>},
            {:s32, [-1, 2_147_483_647], <<-1::32-native, 2_147_483_647::32-native>>},
            {:s64, [-9_223_372_036_854_775_808, 9_223_372_036_854_775_807],
             <<-9_223_372_036_854_775_808::64-native, 9_223_372_036_854_775_807::64-native>>},
            {:u32, [0, 4_294_967_295], <<0::32, 4_294_967_295::32-native>>},
            {:u8, [0, 255], <<0, 255>>}
          ] do
        {:ok, from_list} = ExCubecl.buffer(values, [2], dtype)
        {:ok, from_binary} = ExCubecl.buffer(binary, [2, 1], dtype)
        assert is_reference(from_list) and from_list != from_binary
        assert ExCubecl.read(from_list) == {:ok, binary}
        assert ExCubecl.read_binary(from_binary) == {:ok, binary}
        assert ExCubecl.dtype(from_list) == {:ok, Atom.to_string(dtype)}
        assert ExCubecl.shape(from_binary) == {:ok, [2, 1]}
        assert ExCubecl.size(from_list) == {:ok, byte_size(binary)}
      end
    end

    test "may be empty, scalar or large" do
      assert {:ok, empty} = ExCubecl.buffer([], [0])
      assert ExCubecl.read(empty) == {:ok, <<>>}
      assert ExCubecl.read_binary(empty) == {:ok, <<>>}
      assert {:ok, scalar} = ExCubecl.buffer([7.0], [])
      assert ExCubecl.shape(scalar) == {:ok, []}
      # A list and a binary that are too long for a normal scheduler.
      list = Enum.to_list(1..100_000)
      assert {:ok, large} = ExCubecl.buffer(list, [100_000], :s32)
      assert {:ok, binary} = ExCubecl.read(large)
      assert for(<<x::32-signed-native <- binary>>, do: x) == list
      assert ExCubecl.read!(ExCubecl.buffer!(binary, [100, 1000], :s32)) == binary
      assert {:ok, zeros} = ExCubecl.zeros([1000, 1000], :u8)
      assert ExCubecl.read_binary(zeros) == {:ok, :binary.copy(<<0>>, 1_000_000)}
    end

    test "are refused with a reason if the data does not fit" do
      assert {:error, "buffer_new: f32[2] has 2 elements" <> _} = ExCubecl.buffer([1.0], [2])
      assert {:error, "buffer_new: f32[] has 1 elements" <> _} = ExCubecl.buffer([], [])
      assert {:error, reason} = ExCubecl.buffer(<<1, 2, 3>>, [1])
      assert reason =~ "the data has 3 bytes"
      assert {:error, "buffer_new: element 1 is a," <> _} = ExCubecl.buffer([1, :a], [2])
      assert {:error, "buffer_new: element 0 is 1.5" <> _} = ExCubecl.buffer([1.5], [1], :s64)
      assert {:error, reason} = ExCubecl.buffer([], [-1])
      assert reason =~ "negative"
      assert {:error, _} = ExCubecl.buffer([], List.duplicate(4_294_967_296, 3))
      assert {:error, _} = ExCubecl.zeros([1_000_000_000_000, 1_000_000])
      assert {:error, reason} = ExCubecl.zeros(List.duplicate(1, 9))
      assert reason =~ "8 extents"
    end

    test "raise with the function's name" do
      assert_raise RuntimeError, ~r/^ExCubecl.buffer!\/3 failed/, fn -> ExCubecl.buffer!([1.0], [2]) end
      freed = ExCubecl.buffer!([1.0], [1])
      ExCubecl.free(freed)

      assert_raise RuntimeError, ~r/^ExCubecl.read!\/1 failed: the buffer has been freed/, fn ->
        ExCubecl.read!(freed)
      end

      assert_raise ArgumentError, ~r/unsupported dtype: f16/, fn -> ExCubecl.buffer([1.0], [1], :f16) end
      assert_raise ArgumentError, ~r/must be a buffer/, fn -> ExCubecl.read!(make_ref()) end
    end
  end

  describe "run_kernel" do
    test "gives a positive number that poll and wait know" do
      x = ExCubecl.buffer!([-1.0, 1.0], [2])
      assert {:ok, id} = ExCubecl.run_kernel("relu", [x], x, %{})
      assert is_integer(id) and id > 0
      assert ExCubecl.poll(id) == {:ok, :completed}
      assert ExCubecl.wait(id) == :ok
      assert ExCubecl.wait(id, 0) == :ok
    end

    test "says what is wrong and changes nothing" do
      x = ExCubecl.buffer!([1.0, 2.0], [2])
      three = ExCubecl.buffer!([1.0, 2.0, 3.0], [3])
      whole = ExCubecl.buffer!([1, 2], [2], :s32)

      for {kernel, inputs, output, params, culprit} <- [
            {"rellu", [x], x, %{}, "rellu"},
            {"relu", [x], three, %{}, "f32[3]"},
            {"elementwise_add", [x], x, %{}, "input"},
            {"relu", [x], whole, %{}, "s32"},
            {"relu", [x], x, %{slop: 1}, "slop"},
            {"relu", [x], x, %{slope: "steep"}, "slope"},
            {"relu", [x], x, %{slope: [1, 2]}, "slope"}
          ] do
        for _ <- 1..2 do
          assert {:error, reason} = ExCubecl.run_kernel(kernel, inputs, output, params)
          assert reason =~ culprit
          assert {:error, ^reason} = ExCubecl.submit(kernel, inputs, output, params)
        end
      end

      ExCubecl.free(whole)
      assert {:error, reason} = ExCubecl.run_kernel("relu", [whole], whole)
      assert reason =~ "freed"
      assert {:error, reason} = ExCubecl.run_kernel("relu", [whole], x)
      assert reason =~ "freed"
      assert ExCubecl.read!(x) == floats([1.0, 2.0])
      assert ExCubecl.read!(three) == floats([1.0, 2.0, 3.0])
    end

    test "takes parameters of all kinds" do
      x = ExCubecl.buffer!([-1.0], [1])
      assert {:ok, _} = ExCubecl.run_kernel(:relu, [x], x, slope: 2)
      assert {:ok, _} = ExCubecl.run_kernel("relu", [x], x, %{"slope" => 0.5})
      assert ExCubecl.read!(x) == floats([-1.0])
      image = ExCubecl.buffer!(List.duplicate(9, 48), [4, 4, 3], :u8)
      blurred = ExCubecl.buffer!(List.duplicate(0, 48), [4, 4, 3], :u8)
      assert {:ok, _} = ExCubecl.run_kernel(:blur, [image], blurred, %{radius: 1, border: :reflect})
      assert ExCubecl.read!(blurred) == ExCubecl.read!(image)
      assert {:error, "[blur]: output must not be input 0" <> _} = ExCubecl.run_kernel(:blur, [image], image)
      assert {:error, reason} = ExCubecl.run_kernel(:relu, [x], x, %{slope: {1, 2}})
      assert reason =~ "slope"

      for bad <- [%{slope: nil}, %{slope: self()}, %{slope: %{a: 1}}, %{1 => 2}, [1], "slope", [slope: [1 | 2]]] do
        assert_raise ArgumentError, fn -> ExCubecl.run_kernel(:relu, [x], x, bad) end
      end

      assert_raise ArgumentError, ~r/UTF-8/, fn -> ExCubecl.run_kernel(:relu, [x], x, %{slope: <<255>>}) end
      assert {:error, reason} = ExCubecl.run_kernel(:relu, [x], x, %{slope: "\"\\\n\u0001é"})
      assert reason =~ "slope"
    end
  end

  test "a kernel can be defined by text, and defined again" do
    x = ExCubecl.buffer!([1.0], [1])
    y = ExCubecl.buffer!([0.0], [1])
    assert ExCubecl.define_kernel("mine", ["a", "b"], "a + b * k", %{k: 3}) == :ok
    assert {:ok, _} = ExCubecl.run_kernel("mine", [x, x], y)
    assert ExCubecl.read!(y) == floats([4.0])
    assert ExCubecl.define_kernel("mine", ["a"], "a - 1") == :ok
    assert {:error, _} = ExCubecl.run_kernel("mine", [x, x], y)
    assert {:ok, _} = ExCubecl.run_kernel("mine", [x], y)
    assert ExCubecl.read!(y) == floats([0.0])
    assert {:error, reason} = ExCubecl.define_kernel("mine", ["a"], "a +")
    assert is_binary(reason)
    assert {:error, _} = ExCubecl.define_kernel("mine", ["a"], "b")
  end

  describe "numbers of commands" do
    test "are unique, and unknown ones are errors" do
      x = ExCubecl.buffer!([1.0], [1])
      ids = for _ <- 1..20, do: elem(ExCubecl.submit("relu", [x], x), 1)
      assert Enum.uniq(ids) == ids
      for id <- ids, do: assert(ExCubecl.wait(id) == :ok)

      for function <- [&ExCubecl.poll/1, &ExCubecl.wait/1, &ExCubecl.cancel/1, &ExCubecl.wait(&1, 0)],
          id <- [0, 999_999_999_999] do
        assert {:error, reason} = function.(id)
        assert reason =~ "no command has the number #{id}"
      end
    end

    test "are valid for 65,536 commands, and forgotten after twice as many" do
      x = ExCubecl.buffer!([1.0], [1])
      {gate, hold} = held_buffer()
      {:ok, late} = ExCubecl.submit("relu", [gate], gate)
      {:ok, first} = ExCubecl.run_kernel("relu", [x], x)
      # Numbers without work.
      {:ok, _} = NIF.completed_stages(65_000)
      assert ExCubecl.poll(first) == {:ok, :completed}
      {:ok, _} = NIF.completed_stages(65_536)
      {:ok, _} = NIF.completed_stages(1_000)
      assert {:error, _} = ExCubecl.poll(first)
      # One that finishes now is as good as new.
      assert ExCubecl.poll(late) == {:ok, :pending}
      :ok = NIF.release_hold(hold)
      assert ExCubecl.wait(late) == :ok
      {:ok, _} = NIF.completed_stages(65_000)
      assert ExCubecl.poll(late) == {:ok, :completed}
    end
  end

  describe "pipelines" do
    test "are unique numbers, and unknown ones are errors" do
      {:ok, one} = ExCubecl.pipeline()
      {:ok, two} = ExCubecl.pipeline()
      assert is_integer(one) and one != two
      assert ExCubecl.pipeline_run(one) == {:ok, []}
      assert ExCubecl.pipeline_free(one) == :ok
      x = ExCubecl.buffer!([1.0], [1])

      for result <- [
            ExCubecl.pipeline_free(one),
            ExCubecl.pipeline_run(one),
            ExCubecl.pipeline_submit(one),
            ExCubecl.pipeline_add(one, "relu", [x], x),
            ExCubecl.define_command("none", one),
            ExCubecl.pipeline_run(-1),
            ExCubecl.pipeline_run(1.5)
          ] do
        assert {:error, "no pipeline has the number " <> _} = result
      end
    end

    test "run nothing if a stage is wrong" do
      x = ExCubecl.buffer!([-1.0], [1])
      y = ExCubecl.buffer!([5.0], [1])
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], y)
      :ok = ExCubecl.pipeline_add(pipeline, "nonexistent_kernel", [y], y)
      assert {:error, reason} = ExCubecl.pipeline_run(pipeline)
      assert reason =~ "nonexistent_kernel" and reason =~ "stage 1"
      assert {:error, ^reason} = ExCubecl.pipeline_submit(pipeline)
      assert {:error, ^reason} = ExCubecl.define_command("wrong", pipeline)
      assert ExCubecl.read!(y) == floats([5.0])
    end

    test "run again, with what their buffers hold then" do
      x = ExCubecl.buffer!([1.0, -1.0], [2])
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "scale", [x], x, %{factor: 2})
      for _ <- 1..3, do: assert({:ok, [_]} = ExCubecl.pipeline_run(pipeline))
      assert ExCubecl.read!(x) == floats([8.0, -8.0])
      :ok = ExCubecl.pipeline_add_struct(pipeline, ExCubecl.Command.run_kernel("relu", [x], x))
      assert {:ok, [_, _]} = ExCubecl.pipeline_run(pipeline)
      assert ExCubecl.read!(x) == floats([16.0, 0.0])
      assert {:ok, id} = ExCubecl.pipeline_submit(pipeline, notify: self())
      assert_receive {:tessera, ^id, :completed}, 60_000
      ExCubecl.free(x)
      assert {:error, reason} = ExCubecl.pipeline_run(pipeline)
      assert reason =~ "freed"
    end

    test "of a named command are copies" do
      x = ExCubecl.buffer!([1.0], [1])
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "scale", [x], x, %{factor: 2})
      :ok = ExCubecl.define_command("double", pipeline)
      :ok = ExCubecl.pipeline_add(pipeline, "scale", [x], x, %{factor: 100})
      :ok = ExCubecl.pipeline_free(pipeline)
      {:ok, id} = ExCubecl.submit("double", notify: self())
      assert_receive {:tessera, ^id, :completed}, 60_000
      assert ExCubecl.read!(x) == floats([2.0])
    end
  end

  describe "Dala.Gpu.Compute" do
    alias Dala.Gpu.Compute

    test "names the wrong stage, and runs nothing" do
      a = Compute.buffer([-1.0], {1}, :f32)
      good = %{op: :run_kernel, kernel: :relu, inputs: [a], output: a, params: %{}}

      for {bad, culprit} <- [
            {%{good | op: :jump}, ":jump"},
            {%{good | kernel: :nothing}, "nothing"},
            {%{good | inputs: [a, 5]}, "input 1 must be a buffer, got 5"},
            {%{good | inputs: a}, "list"},
            {%{good | output: nil}, "the output must be a buffer"},
            {%{good | params: %{slope: nil}}, "slope"},
            {%{good | op: :copy_buffer, inputs: []}, "0 inputs"},
            {%{}, "map with an :op"},
            {:stage, "map with an :op"}
          ] do
        pipeline = Compute.pipeline() |> Compute.pipeline_add(good) |> Compute.pipeline_add(bad)
        assert {:error, reason} = Compute.pipeline_run(pipeline)
        assert reason =~ "stage 1" and reason =~ culprit
        assert Compute.Pipeline.stages(pipeline) == [good, bad]
      end

      assert Compute.read_list(a) == [-1.0]
    end

    test "gives a number even for a wrong command" do
      a = Compute.buffer([-1.0], {1}, :f32)

      for bad <- [
            %{op: :run_kernel, kernel: "nothing", inputs: [a.ref], output: a.ref, params: %{}},
            %{op: :run_kernel, kernel: "relu", inputs: [5], output: a.ref, params: %{}},
            %{op: :run_kernel, kernel: "relu", inputs: [a], output: a, params: %{slope: nil}},
            "relu"
          ] do
        id = Compute.submit(bad)
        assert is_integer(id)
        assert {:error, reason} = Compute.poll(id)
        assert Compute.wait(id) == {:error, reason}
      end

      assert {:error, _} = Compute.poll(999_999_999_999)
      copy = Compute.buffer_zeros({1}, :f32)
      assert Compute.wait(Compute.submit(%{op: :copy_buffer, inputs: [a], output: copy})) == :ok
      assert Compute.read_list(copy) == [-1.0]
    end

    test "raises where it has no way to return an error" do
      assert_raise ArgumentError, ~r/buffer_new/, fn -> Compute.buffer([1.0], {2}, :f32) end
      assert_raise ArgumentError, ~r/tuple/, fn -> Compute.buffer([1.0], [1], :f32) end
      assert_raise ArgumentError, ~r/list/, fn -> Compute.buffer(<<1>>, {1}, :u8) end
      assert_raise ArgumentError, ~r/binary/, fn -> Compute.buffer_from_binary([1], {1}, :u8) end
      freed = Compute.buffer([1.0], {1}, :f32)
      assert Compute.free_many([freed, freed]) == :ok
      assert_raise ArgumentError, ~r/freed/, fn -> Compute.read(freed) end
    end

    test "reads what Elixir has no numbers for" do
      values = [1.5, :nan, :infinity, :neg_infinity]
      for dtype <- [:f32, :f64], do: assert(Compute.read_list(Compute.buffer(values, {4}, dtype)) == values)
    end
  end
end
