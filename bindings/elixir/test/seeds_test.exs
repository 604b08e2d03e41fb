defmodule SeedsTest do
  # Every Elixir block of the documents that asked for this interface, letter for letter as far as it can run. Where a
  # block had to be corrected, the test says how. Blocks with surfaces are not here: the library does not have those
  # yet.
  use TesseraCase, async: true

  alias Dala.Gpu.Compute

  # Runs a block with these variables and returns its result and its variables.
  defp run(block, bindings \\ []) do
    # Elixir warns that a block has an unused variable.
    {{result, bindings}, _warnings} =
      ExUnit.CaptureIO.with_io(:stderr, fn -> Code.eval_string(block, bindings, __ENV__) end)

    {result, Map.new(bindings)}
  end

  # The commands that the blocks submit by name.
  setup_all do
    for name <- ["some_command", "work", "process"] do
      x = ExCubecl.buffer!([-1.0, 1.0], [2])
      {:ok, pipeline} = ExCubecl.pipeline()
      :ok = ExCubecl.pipeline_add(pipeline, "relu", [x], x)
      :ok = ExCubecl.define_command(name, pipeline)
    end

    :ok
  end

  describe "Async Execution & Pipelines, first edition" do
    test "submit, poll, wait" do
      {_, vars} =
        run(~S"""
        # Submit work, get a command ID immediately
        {:ok, cmd_id} = ExCubecl.submit("some_command")

        # Poll for status (non-blocking)
        {:ok, status} = ExCubecl.poll(cmd_id)
        # status is one of: :pending, :running, :completed, :failed

        # Or block until completion
        :ok = ExCubecl.wait(cmd_id)
        """)

      assert vars.status in [:pending, :running, :completed]
    end

    # Corrected: a clause for {:ok, :running}, which the block does not have.
    test "polling pattern" do
      {_, vars} =
        run(~S"""
        {:ok, cmd_id} = ExCubecl.submit("work")

        result =
          Stream.iterate(0, &(&1 + 1))
          |> Enum.reduce_while(nil, fn _, _ ->
            case ExCubecl.poll(cmd_id) do
              {:ok, :pending} -> {:cont, nil}
              {:ok, :running} -> {:cont, nil}
              {:ok, :completed} -> {:halt, :ok}
              {:ok, :failed} -> {:halt, :error}
              {:error, r} -> {:halt, {:error, r}}
            end
          end)
        """)

      assert vars.result == :ok
    end

    # Corrected: `cmd_ids =`, since Enum.map/2 gives a list, not {:ok, list}.
    test "parallel GPU work" do
      {results, vars} =
        run(
          ~S"""
          # Submit multiple commands concurrently
          cmd_ids =
            Enum.map(inputs, fn input ->
              {:ok, output} = ExCubecl.buffer(List.duplicate(0.0, 100), [100], :f32)
              {:ok, cmd_id} = ExCubecl.submit("process")
              {cmd_id, output}
            end)
            |> Enum.map(fn {cmd_id, _} -> cmd_id end)

          # Wait for all
          for cmd_id <- cmd_ids do
            :ok = ExCubecl.wait(cmd_id)
          end
          """,
          inputs: [1, 2, 3]
        )

      assert results == [:ok, :ok, :ok]
      assert length(Enum.uniq(vars.cmd_ids)) == 3
    end

    test "basic pipeline" do
      {_, vars} =
        run(
          ~S"""
          {:ok, pipeline} = ExCubecl.pipeline()

          :ok = ExCubecl.pipeline_add(pipeline, "elementwise_add", [buf_a, buf_b], buf_out)
          :ok = ExCubecl.pipeline_add(pipeline, "relu", [buf_out], buf_result)

          {:ok, _cmd_ids} = ExCubecl.pipeline_run(pipeline)
          :ok = ExCubecl.pipeline_free(pipeline)
          """,
          basic_buffers()
        )

      assert ExCubecl.read!(vars.buf_result) == floats([0.0, 7.0])
      assert for(id <- vars._cmd_ids, do: ExCubecl.poll(id)) == [{:ok, :completed}, {:ok, :completed}]
    end

    test "multi-stage pipeline" do
      {_, vars} =
        run(~S"""
        {:ok, input} = ExCubecl.buffer([1.0, 2.0, 3.0], [3], :f32)
        {:ok, stage1} = ExCubecl.buffer([0.0, 0.0, 0.0], [3], :f32)
        {:ok, stage2} = ExCubecl.buffer([0.0, 0.0, 0.0], [3], :f32)

        {:ok, pipeline} = ExCubecl.pipeline()
        :ok = ExCubecl.pipeline_add(pipeline, "elementwise_add", [input, input], stage1)
        :ok = ExCubecl.pipeline_add(pipeline, "relu", [stage1], stage2)

        {:ok, _cmd_ids} = ExCubecl.pipeline_run(pipeline)

        {:ok, result} = ExCubecl.read(stage2)

        :ok = ExCubecl.pipeline_free(pipeline)
        """)

      assert vars.result == floats([2.0, 4.0, 6.0])
    end

    test "combining async and pipelines" do
      {_, vars} =
        run(
          ~S"""
          {:ok, pipeline} = ExCubecl.pipeline()
          :ok = ExCubecl.pipeline_add(pipeline, "gaussian_blur", [buf_in], buf_blur)
          :ok = ExCubecl.pipeline_add(pipeline, "relu", [buf_blur], buf_out)

          # Run pipeline synchronously (pipelines are already sequential on the GPU)
          {:ok, _cmd_ids} = ExCubecl.pipeline_run(pipeline)
          :ok = ExCubecl.pipeline_free(pipeline)
          """,
          image_buffers()
        )

      assert ExCubecl.read!(vars.buf_out) == floats(List.duplicate(3.0, 64))
    end
  end

  describe "Async Execution & Pipelines, second edition" do
    test "submit, poll, wait" do
      run(~S"""
      # Submit work, get a command ID immediately
      {:ok, cmd_id} = ExCubecl.submit("some_command")
      # Poll for status (non-blocking)
      {:ok, status} = ExCubecl.poll(cmd_id)
      # status is one of: :pending, :running, :completed, :failed
      # Or block until completion
      :ok = ExCubecl.wait(cmd_id)
      """)
    end

    # Corrected: a clause for {:ok, :running}.
    test "polling pattern" do
      {_, vars} =
        run(~S"""
        {:ok, cmd_id} = ExCubecl.submit("work")
        result =
        Stream.iterate(0, &(&1 + 1))
        |> Enum.reduce_while(nil, fn _, _ ->
        case ExCubecl.poll(cmd_id) do
        {:ok, :pending} -> {:cont, nil}
        {:ok, :running} -> {:cont, nil}
        {:ok, :completed} -> {:halt, :ok}
        {:ok, :failed} -> {:halt, :error}
        {:error, r} -> {:halt, {:error, r}}
        end
        end)
        """)

      assert vars.result == :ok
    end

    # Corrected: `cmd_ids =` instead of `{:ok, cmd_ids} =`.
    test "parallel GPU work" do
      {results, _} =
        run(
          ~S"""
          # Submit multiple commands concurrently
          cmd_ids =
          Enum.map(inputs, fn input ->
          {:ok, output} = ExCubecl.buffer(List.duplicate(0.0, 100), [100], :f32)
          {:ok, cmd_id} = ExCubecl.submit("process")
          {cmd_id, output}
          end)
          |> Enum.map(fn {cmd_id, _} -> cmd_id end)
          # Wait for all
          for cmd_id <- cmd_ids do
          :ok = ExCubecl.wait(cmd_id)
          end
          """,
          inputs: [1, 2]
        )

      assert results == [:ok, :ok]
    end

    test "basic pipeline" do
      {_, vars} =
        run(
          ~S"""
          {:ok, pipeline} = ExCubecl.pipeline()
          :ok = ExCubecl.pipeline_add(pipeline, "elementwise_add", [buf_a, buf_b], buf_out)
          :ok = ExCubecl.pipeline_add(pipeline, "relu", [buf_out], buf_result)
          {:ok, _cmd_ids} = ExCubecl.pipeline_run(pipeline)
          :ok = ExCubecl.pipeline_free(pipeline)
          """,
          basic_buffers()
        )

      assert ExCubecl.read!(vars.buf_result) == floats([0.0, 7.0])
    end

    test "multi-stage pipeline" do
      {_, vars} =
        run(~S"""
        {:ok, input} = ExCubecl.buffer([1.0, 2.0, 3.0], [3], :f32)
        {:ok, stage1} = ExCubecl.buffer([0.0, 0.0, 0.0], [3], :f32)
        {:ok, stage2} = ExCubecl.buffer([0.0, 0.0, 0.0], [3], :f32)
        {:ok, pipeline} = ExCubecl.pipeline()
        :ok = ExCubecl.pipeline_add(pipeline, "elementwise_add", [input, input], stage1)
        :ok = ExCubecl.pipeline_add(pipeline, "relu", [stage1], stage2)
        {:ok, _cmd_ids} = ExCubecl.pipeline_run(pipeline)
        {:ok, result} = ExCubecl.read(stage2)
        :ok = ExCubecl.pipeline_free(pipeline)
        """)

      assert vars.result == floats([2.0, 4.0, 6.0])
    end

    # Corrected: the line that names the pipeline "run_pipeline", which the block submits.
    test "combining async and pipelines" do
      {_, vars} =
        run(
          ~S"""
          {:ok, pipeline} = ExCubecl.pipeline()
          :ok = ExCubecl.pipeline_add(pipeline, "blur", [buf_in], buf_blur)
          :ok = ExCubecl.pipeline_add(pipeline, "relu", [buf_blur], buf_out)
          :ok = ExCubecl.define_command("run_pipeline", pipeline)
          # Run pipeline async
          {:ok, cmd_id} = ExCubecl.submit("run_pipeline")
          :ok = ExCubecl.wait(cmd_id)
          """,
          image_buffers()
        )

      assert ExCubecl.read!(vars.buf_out) == floats(List.duplicate(3.0, 64))
    end
  end

  describe "Dala.Gpu.Compute.Pipeline" do
    test "image processing pipeline" do
      {result, vars} =
        run(
          ~S"""
          pipeline = Dala.Gpu.Compute.pipeline()
          pipeline
          |> Dala.Gpu.Compute.pipeline_add(%{
            op: :run_kernel,
            kernel: :blur,
            inputs: [input_buf],
            output: blurred_buf,
            params: %{radius: 3, sigma: 1.5}
          })
          |> Dala.Gpu.Compute.pipeline_add(%{
            op: :run_kernel,
            kernel: :sharpen,
            inputs: [blurred_buf],
            output: sharpened_buf,
            params: %{amount: 0.5}
          })
          |> Dala.Gpu.Compute.pipeline_add(%{
            op: :run_kernel,
            kernel: :grayscale,
            inputs: [sharpened_buf],
            output: output_buf,
            params: %{}
          })
          Dala.Gpu.Compute.pipeline_run(pipeline)
          """,
          input_buf: Compute.buffer(List.duplicate(90, 8 * 8 * 4), {8, 8, 4}, :u8),
          blurred_buf: Compute.buffer_zeros({8, 8, 4}, :u8),
          sharpened_buf: Compute.buffer_zeros({8, 8, 4}, :u8),
          output_buf: Compute.buffer_zeros({8, 8}, :u8)
        )

      assert result == :ok
      assert Compute.read_list(vars.output_buf) == List.duplicate(90, 64)
      assert Compute.Pipeline.stage_count(vars.pipeline) == 3
      assert [%{kernel: :blur}, %{kernel: :sharpen}, %{kernel: :grayscale}] = Compute.Pipeline.stages(vars.pipeline)
    end

    # Corrected: without the stage :mobilenet_v2 between the two, which the library does not have yet.
    test "AI inference pipeline" do
      {result, vars} =
        run(
          ~S"""
          pipeline = Dala.Gpu.Compute.pipeline()
          pipeline
          |> Dala.Gpu.Compute.pipeline_add(%{
            op: :run_kernel,
            kernel: :preprocess,
            inputs: [camera_buf],
            output: preprocessed_buf,
            params: %{normalize: true, size: {224, 224}}
          })
          |> Dala.Gpu.Compute.pipeline_add(%{
            op: :run_kernel,
            kernel: :softmax,
            inputs: [logits_buf],
            output: probs_buf,
            params: %{}
          })
          Dala.Gpu.Compute.pipeline_run(pipeline)
          """,
          camera_buf: Compute.buffer(List.duplicate(255, 16 * 16 * 3), {16, 16, 3}, :u8),
          preprocessed_buf: Compute.buffer_zeros({1, 3, 224, 224}, :f32),
          logits_buf: Compute.buffer([1.0, 1.0, 1.0, 1.0], {1, 4}, :f32),
          probs_buf: Compute.buffer_zeros({1, 4}, :f32)
        )

      assert result == :ok
      for value <- Compute.read_list(vars.probs_buf), do: assert_in_delta(value, 0.25, 1.0e-6)
      # White, less the mean and divided by the deviation of ImageNet's red.
      assert_in_delta hd(Compute.read_list(vars.preprocessed_buf)), (1 - 0.485) / 0.229, 1.0e-3
    end

    test "the types that the document states" do
      assert %Compute.Pipeline{ref: ref, stages: []} = pipeline = Compute.Pipeline.new()
      assert is_reference(ref)
      a = Compute.buffer([-1.0, 1.0], {2}, :f32)
      b = Compute.buffer_zeros({2}, :f32)
      copy = %{op: :copy_buffer, kernel: nil, inputs: [a.ref], output: b.ref, params: %{}}
      assert %Compute.Pipeline{stages: [^copy]} = Compute.Pipeline.add(pipeline, copy)
      Compute.Pipeline.add(pipeline, %{op: :barrier, kernel: nil, inputs: [], output: nil, params: %{}})
      Compute.Pipeline.add(pipeline, %{op: :run_kernel, kernel: :relu, inputs: [b.ref], output: b.ref, params: %{}})
      assert Compute.Pipeline.stage_count(pipeline) == 3
      assert Compute.Pipeline.run(pipeline) == :ok
      assert Compute.read_list(b) == [0.0, 1.0]
    end
  end

  describe "Dala.Gpu.Compute" do
    test "quick start" do
      {info, _} = run("Dala.Gpu.Compute.device_info()")
      assert %{name: name, gpu: gpu, version: version} = info
      assert is_binary(name) and is_boolean(gpu) and is_binary(version)

      {_, vars} =
        run(~S"""
        # Create buffers
        a = Dala.Gpu.Compute.buffer([1.0, 2.0, 3.0], {3}, :f32)
        b = Dala.Gpu.Compute.buffer([4.0, 5.0, 6.0], {3}, :f32)
        c = Dala.Gpu.Compute.buffer([0.0, 0.0, 0.0], {3}, :f32)
        # Run a kernel
        ran = Dala.Gpu.Compute.run_kernel(:elementwise_add, [a, b], c, %{})
        # Read results
        result = Dala.Gpu.Compute.read(c)
        # <<5.0, 7.0, 9.0>> (binary)
        # Cleanup (optional — buffers auto-freed by ResourceArc)
        Dala.Gpu.Compute.free(a)
        Dala.Gpu.Compute.free(b)
        Dala.Gpu.Compute.free(c)
        """)

      assert vars.ran == :ok
      assert vars.result == floats([5.0, 7.0, 9.0])
    end

    test "async execution" do
      {result, vars} =
        run(
          ~S"""
          cmd_id = Dala.Gpu.Compute.submit(%{
          op: :run_kernel,
          kernel: "relu",
          inputs: [a.ref],
          output: b.ref,
          params: %{}
          })
          status = Dala.Gpu.Compute.poll(cmd_id) # :pending | :completed | {:error, reason}
          Dala.Gpu.Compute.wait(cmd_id) # blocks until done
          """,
          a: Compute.buffer([-1.0, 1.0], {2}, :f32),
          b: Compute.buffer_zeros({2}, :f32)
        )

      assert result == :ok
      assert vars.status in [:pending, :completed]
      assert Compute.read_list(vars.b) == [0.0, 1.0]
    end

    test "pipeline orchestration" do
      {result, vars} =
        run(
          ~S"""
          pipeline = Dala.Gpu.Compute.pipeline()
          pipeline
          |> Dala.Gpu.Compute.pipeline_add(%{
          op: :run_kernel,
          kernel: :blur,
          inputs: [input_buf],
          output: temp_buf,
          params: %{radius: 3}
          })
          |> Dala.Gpu.Compute.pipeline_add(%{
          op: :run_kernel,
          kernel: :relu,
          inputs: [temp_buf],
          output: output_buf,
          params: %{}
          })
          Dala.Gpu.Compute.pipeline_run(pipeline)
          """,
          input_buf: Compute.buffer(List.duplicate(2.0, 64), {8, 8}, :f32),
          temp_buf: Compute.buffer_zeros({8, 8}, :f32),
          output_buf: Compute.buffer_zeros({8, 8}, :f32)
        )

      assert result == :ok
      assert Enum.all?(Compute.read_list(vars.output_buf), &(abs(&1 - 2.0) < 1.0e-6))
    end

    test "the examples of the functions" do
      {_, vars} =
        run(
          ~S"""
          c = Dala.Gpu.Compute.buffer_zeros({3}, :f32)
          :ok = Dala.Gpu.Compute.add(a, b, c)
          buf = Dala.Gpu.Compute.buffer([1.0, 2.0, 3.0], {3}, :f32)
          data = Dala.Gpu.Compute.read(c)
          buf = Dala.Gpu.Compute.buffer_from_binary(binary_data, {640, 480, 4}, :u8)
          zeros = Dala.Gpu.Compute.buffer_zeros({256, 256}, :f32)
          """,
          a: Compute.buffer([1.0, 2.0, 3.0], {3}, :f32),
          b: Compute.buffer([4.0, 5.0, 6.0], {3}, :f32),
          binary_data: :binary.copy(<<9>>, 640 * 480 * 4)
        )

      assert vars.data == floats([5.0, 7.0, 9.0])
      assert Compute.shape(vars.buf) == {640, 480, 4}
      assert Compute.size(vars.zeros) == 256 * 256 * 4

      {_, vars} =
        run(
          ~S"""
          a = Dala.Gpu.Compute.buffer(list_4, {2, 2}, :f32)
          b = Dala.Gpu.Compute.buffer(list_4, {2, 2}, :f32)
          c = Dala.Gpu.Compute.buffer_zeros({2, 2}, :f32)
          Dala.Gpu.Compute.matmul(a, b, c)
          """,
          list_4: [1.0, 2.0, 3.0, 4.0]
        )

      assert Compute.read_list(vars.c) == [7.0, 10.0, 15.0, 22.0]

      {_, vars} =
        run(
          ~S"""
          :ok = Dala.Gpu.Compute.multiply(a, b, output)
          product = Dala.Gpu.Compute.read_list(output)
          :ok = Dala.Gpu.Compute.relu(input, output)
          relu = Dala.Gpu.Compute.read_list(output)
          :ok = Dala.Gpu.Compute.scale(input, 2.5, output)
          scaled = Dala.Gpu.Compute.read_list(output)
          :ok = Dala.Gpu.Compute.run_kernel(:elementwise_add, [a, b], c, %{})
          :ok = Dala.Gpu.Compute.run_kernel(:relu, [a], b, %{slope: 0.1})
          :ok = Dala.Gpu.Compute.run_kernel(:blur, [image_buf], out_buf, %{radius: 3, sigma: 1.5})
          """,
          a: Compute.buffer([2.0, -10.0], {2}, :f32),
          b: Compute.buffer([3.0, 4.0], {2}, :f32),
          c: Compute.buffer_zeros({2}, :f32),
          input: Compute.buffer([-2.0, 2.0], {2}, :f32),
          output: Compute.buffer_zeros({2}, :f32),
          image_buf: Compute.buffer_zeros({9, 9, 4}, :u8),
          out_buf: Compute.buffer_zeros({9, 9, 4}, :u8)
        )

      assert vars.product == [6.0, -40.0]
      assert vars.relu == [0.0, 2.0]
      assert vars.scaled == [-5.0, 5.0]
      assert Compute.read_list(vars.b) == [2.0, -1.0]
    end

    # handle_error/1 and retry_later/0, which the block does not define, are those of TesseraCase.
    test "submit, and poll later" do
      {result, vars} =
        run(
          ~S"""
          cmd_id = Dala.Gpu.Compute.submit(%{
          op: :run_kernel,
          kernel: "relu",
          inputs: [a.ref],
          output: b.ref,
          params: %{}
          })
          # Later...
          case Dala.Gpu.Compute.poll(cmd_id) do
          :completed -> Dala.Gpu.Compute.read(b)
          {:error, reason} -> handle_error(reason)
          :pending -> retry_later()
          end
          """,
          a: Compute.buffer([-1.0, 1.0], {2}, :f32),
          b: Compute.buffer_zeros({2}, :f32)
        )

      assert result in [floats([0.0, 1.0]), :later]
      assert Compute.wait(vars.cmd_id) == :ok
    end
  end

  defp basic_buffers do
    [
      buf_a: ExCubecl.buffer!([1.0, 2.0], [2]),
      buf_b: ExCubecl.buffer!([-3.0, 5.0], [2]),
      buf_out: ExCubecl.buffer!([0.0, 0.0], [2]),
      buf_result: ExCubecl.buffer!([0.0, 0.0], [2])
    ]
  end

  defp image_buffers do
    zeros = List.duplicate(0.0, 64)

    [
      buf_in: ExCubecl.buffer!(List.duplicate(3.0, 64), [8, 8]),
      buf_blur: ExCubecl.buffer!(zeros, [8, 8]),
      buf_out: ExCubecl.buffer!(zeros, [8, 8])
    ]
  end
end
