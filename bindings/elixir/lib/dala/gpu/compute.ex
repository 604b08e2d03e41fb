defmodule Dala.Gpu.Compute do
  @moduledoc """
  Compute on the device with structs for buffers and pipelines, on top of `ExCubecl`.

      iex> a = Dala.Gpu.Compute.buffer([1.0, 2.0, 3.0], {3}, :f32)
      iex> b = Dala.Gpu.Compute.buffer([4.0, 5.0, 6.0], {3}, :f32)
      iex> c = Dala.Gpu.Compute.buffer_zeros({3}, :f32)
      iex> Dala.Gpu.Compute.run_kernel(:elementwise_add, [a, b], c, %{})
      :ok
      iex> Dala.Gpu.Compute.read_list(c)
      [5.0, 7.0, 9.0]

  Shapes are tuples. Functions that make or read buffers raise `ArgumentError` if they cannot; functions that run
  something give `:ok` or `{:error, reason}`. All that `ExCubecl` says about order, waiting and memory holds here too.
  """

  alias Dala.Gpu.Compute.{Buffer, Pipeline}

  @nx_types [f32: {:f, 32}, f64: {:f, 64}, s32: {:s, 32}, s64: {:s, 64}, u32: {:u, 32}, u8: {:u, 8}]

  ## Device

  @doc """
  What the device is: its `name`, whether it is a `gpu`, and the `version` of the library.

      iex> info = Dala.Gpu.Compute.device_info()
      iex> {is_binary(info.name), is_boolean(info.gpu), info.version}
      {true, true, "0.1.0"}
  """
  @spec device_info() :: map()
  def device_info do
    info = expect(ExCubecl.device_info())
    %{name: info.device_name, gpu: info.device_type == "gpu", version: version()}
  end

  @doc """
  Whether the device is a real GPU, not the CPU or a software GPU.

      iex> Dala.Gpu.Compute.gpu?() == Dala.Gpu.Compute.device_info().gpu
      true
  """
  @spec gpu?() :: boolean()
  def gpu?, do: device_info().gpu

  @doc """
  The version of the library.

      iex> Dala.Gpu.Compute.version()
      "0.1.0"
  """
  @spec version() :: String.t()
  def version, do: ExCubecl.version()

  ## Buffers

  @doc """
  Makes a buffer from a list of numbers.

      iex> buffer = Dala.Gpu.Compute.buffer([1, 2, 3, 4], {2, 2}, :u8)
      iex> {buffer.shape, buffer.dtype}
      {{2, 2}, :u8}
  """
  @spec buffer(list(), tuple(), atom()) :: Buffer.t()
  def buffer(list, shape, dtype) when is_list(list), do: make(list, shape, dtype)
  def buffer(other, _, _), do: raise(ArgumentError, "the data must be a list, got #{inspect(other, limit: 5)}")

  @doc """
  Makes a buffer from a binary that has the elements in native byte order.

      iex> buffer = Dala.Gpu.Compute.buffer_from_binary(<<1, 2, 3>>, {3}, :u8)
      iex> Dala.Gpu.Compute.read_list(buffer)
      [1, 2, 3]
  """
  @spec buffer_from_binary(binary(), tuple(), atom()) :: Buffer.t()
  def buffer_from_binary(binary, shape, dtype) when is_binary(binary), do: make(binary, shape, dtype)

  def buffer_from_binary(other, _, _) do
    raise ArgumentError, "the data must be a binary, got #{inspect(other, limit: 5)}"
  end

  @doc """
  Makes a buffer of zeros.

      iex> Dala.Gpu.Compute.read_list(Dala.Gpu.Compute.buffer_zeros({2}, :s32))
      [0, 0]
  """
  @spec buffer_zeros(tuple(), atom()) :: Buffer.t()
  def buffer_zeros(shape, dtype) do
    %Buffer{ref: expect(ExCubecl.zeros(extents(shape), dtype)), shape: shape, dtype: dtype}
  end

  @doc """
  The contents as a binary, after the commands submitted so far that write the buffer.

      iex> Dala.Gpu.Compute.read(Dala.Gpu.Compute.buffer([5.0], {1}, :f32))
      <<5.0::float-32-native>>
  """
  @spec read(Buffer.t()) :: binary()
  def read(%Buffer{ref: ref}), do: expect(ExCubecl.read(ref))

  @doc """
  Like `read/1`, without a copy where the device allows that: see `ExCubecl.read_binary/1`.

      iex> Dala.Gpu.Compute.read_binary(Dala.Gpu.Compute.buffer([7], {1}, :u8))
      <<7>>
  """
  @spec read_binary(Buffer.t()) :: binary()
  def read_binary(%Buffer{ref: ref}), do: expect(ExCubecl.read_binary(ref))

  @doc """
  The contents as a list of numbers: integers or floats, as the buffer's type is. What Elixir has no float for is
  `:nan`, `:infinity` or `:neg_infinity`.

      iex> Dala.Gpu.Compute.read_list(Dala.Gpu.Compute.buffer([-1, 2], {2}, :s64))
      [-1, 2]
      iex> Dala.Gpu.Compute.read_list(Dala.Gpu.Compute.buffer([0.5, :infinity, :nan], {3}, :f64))
      [0.5, :infinity, :nan]
  """
  @spec read_list(Buffer.t()) :: list()
  def read_list(%Buffer{dtype: dtype} = buffer), do: numbers(read_binary(buffer), dtype)

  @doc """
  The shape.

      iex> Dala.Gpu.Compute.shape(Dala.Gpu.Compute.buffer_zeros({4, 2}, :f32))
      {4, 2}
  """
  @spec shape(Buffer.t()) :: tuple()
  def shape(%Buffer{shape: shape}), do: shape

  @doc """
  The element type.

      iex> Dala.Gpu.Compute.dtype(Dala.Gpu.Compute.buffer_zeros({1}, :u32))
      :u32
  """
  @spec dtype(Buffer.t()) :: atom()
  def dtype(%Buffer{dtype: dtype}), do: dtype

  @doc """
  The size in bytes.

      iex> Dala.Gpu.Compute.size(Dala.Gpu.Compute.buffer_zeros({4, 2}, :f32))
      32
  """
  @spec size(Buffer.t()) :: non_neg_integer()
  def size(%Buffer{} = buffer), do: Buffer.size(buffer)

  @doc """
  Gives a buffer's memory back now rather than when it is garbage.

      iex> Dala.Gpu.Compute.free(Dala.Gpu.Compute.buffer_zeros({1}, :f32))
      :ok
  """
  @spec free(Buffer.t()) :: :ok
  def free(%Buffer{ref: ref}), do: ExCubecl.free(ref)

  @doc """
  Frees several buffers.

      iex> Dala.Gpu.Compute.free_many([Dala.Gpu.Compute.buffer_zeros({1}, :f32)])
      :ok
  """
  @spec free_many([Buffer.t()]) :: :ok
  def free_many(buffers) when is_list(buffers), do: Enum.each(buffers, &free/1)

  @doc """
  Makes a buffer from an Nx tensor. Raises if Nx is not there, or the tensor has a type that buffers do not have.
  """
  @spec from_nx(term()) :: Buffer.t()
  def from_nx(tensor) do
    expect_nx()
    type = apply(Nx, :type, [tensor])

    case Enum.find(@nx_types, fn {_, nx} -> nx == type end) do
      {dtype, _} -> make(apply(Nx, :to_binary, [tensor]), apply(Nx, :shape, [tensor]), dtype)
      nil -> raise ArgumentError, "a tensor of type #{inspect(type)} cannot be a buffer: Nx.as_type/2 converts it"
    end
  end

  @doc """
  Makes an Nx tensor of this shape and type from a buffer. Raises if Nx is not there.
  """
  @spec to_nx(Buffer.t(), tuple(), atom()) :: term()
  def to_nx(%Buffer{} = buffer, shape, dtype) do
    expect_nx()

    if dtype != buffer.dtype do
      raise ArgumentError, "the buffer has the type #{inspect(buffer.dtype)}, not #{inspect(dtype)}"
    end

    apply(Nx, :reshape, [apply(Nx, :from_binary, [read(buffer), @nx_types[dtype]]), shape])
  end

  ## Kernels

  @doc """
  Runs a kernel and waits until it has finished.

      iex> a = Dala.Gpu.Compute.buffer([-2.0, 2.0], {2}, :f32)
      iex> Dala.Gpu.Compute.run_kernel(:relu, [a], a, %{slope: 0.5})
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [-1.0, 2.0]
  """
  @spec run_kernel(atom(), [Buffer.t()], Buffer.t(), map()) :: :ok | {:error, term()}
  def run_kernel(kernel, inputs, output, params) do
    with {:ok, _id} <- ExCubecl.run_kernel(kernel, refs(inputs), ref(output), params), do: :ok
  end

  @doc """
  The same as `run_kernel/4`, which is asynchronous already: only the calling process waits.

      iex> a = Dala.Gpu.Compute.buffer([4.0], {1}, :f32)
      iex> Dala.Gpu.Compute.run_kernel_async(:sqrt, [a], a, %{})
      :ok
  """
  @spec run_kernel_async(atom(), [Buffer.t()], Buffer.t(), map()) :: :ok | {:error, term()}
  def run_kernel_async(kernel, inputs, output, params), do: run_kernel(kernel, inputs, output, params)

  @doc """
  Elementwise addition: `output = a + b`.

      iex> a = Dala.Gpu.Compute.buffer([1.0], {1}, :f32)
      iex> Dala.Gpu.Compute.add(a, a, a)
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [2.0]
  """
  @spec add(Buffer.t(), Buffer.t(), Buffer.t()) :: :ok | {:error, term()}
  def add(a, b, output), do: run_kernel(:elementwise_add, [a, b], output, %{})

  @doc """
  Elementwise multiplication: `output = a * b`.

      iex> a = Dala.Gpu.Compute.buffer([3.0], {1}, :f32)
      iex> Dala.Gpu.Compute.multiply(a, a, a)
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [9.0]
  """
  @spec multiply(Buffer.t(), Buffer.t(), Buffer.t()) :: :ok | {:error, term()}
  def multiply(a, b, output), do: run_kernel(:elementwise_mul, [a, b], output, %{})

  @doc """
  The product of two matrices.

      iex> a = Dala.Gpu.Compute.buffer([1.0, 2.0, 3.0, 4.0], {2, 2}, :f32)
      iex> c = Dala.Gpu.Compute.buffer_zeros({2, 2}, :f32)
      iex> Dala.Gpu.Compute.matmul(a, a, c)
      :ok
      iex> Dala.Gpu.Compute.read_list(c)
      [7.0, 10.0, 15.0, 22.0]
  """
  @spec matmul(Buffer.t(), Buffer.t(), Buffer.t()) :: :ok | {:error, term()}
  def matmul(a, b, output), do: run_kernel(:matmul, [a, b], output, %{})

  @doc """
  `output = max(0, input)`.

      iex> a = Dala.Gpu.Compute.buffer([-1.0, 1.0], {2}, :f32)
      iex> Dala.Gpu.Compute.relu(a, a)
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [0.0, 1.0]
  """
  @spec relu(Buffer.t(), Buffer.t()) :: :ok | {:error, term()}
  def relu(input, output), do: run_kernel(:relu, [input], output, %{})

  @doc """
  `output = input * scalar`.

      iex> a = Dala.Gpu.Compute.buffer([2.0], {1}, :f32)
      iex> Dala.Gpu.Compute.scale(a, 2.5, a)
      :ok
      iex> Dala.Gpu.Compute.read_list(a)
      [5.0]
  """
  @spec scale(Buffer.t(), number(), Buffer.t()) :: :ok | {:error, term()}
  def scale(input, scalar, output), do: run_kernel(:scale, [input], output, %{factor: scalar})

  ## Commands

  @doc """
  Submits a command and gives its number at once: a map as for a stage of `Dala.Gpu.Compute.Pipeline`. If it is wrong,
  `poll/1` and `wait/1` of the number say why.

      iex> a = Dala.Gpu.Compute.buffer([-1.0], {1}, :f32)
      iex> spec = %{op: :run_kernel, kernel: "relu", inputs: [a.ref], output: a.ref, params: %{}}
      iex> command = Dala.Gpu.Compute.submit(spec)
      iex> Dala.Gpu.Compute.wait(command)
      :ok
      iex> {:error, reason} = Dala.Gpu.Compute.poll(Dala.Gpu.Compute.submit(%{op: :explode}))
      iex> reason
      "stage 0: unknown op :explode, expected :run_kernel, :copy_buffer or :barrier"
  """
  @spec submit(map()) :: non_neg_integer()
  def submit(%{op: :run_kernel, kernel: kernel, inputs: inputs, output: output} = spec) when is_list(inputs) do
    submitted(ExCubecl.submit(kernel, refs(inputs), ref(output), Map.get(spec, :params, %{})))
  rescue
    error in ArgumentError -> submitted({:error, error.message})
  end

  def submit(spec), do: Pipeline.new() |> Pipeline.add(spec) |> Pipeline.submit() |> submitted()

  @doc """
  The status of a command: `:pending` until it has finished, then `:completed` or `{:error, reason}`.

      iex> Dala.Gpu.Compute.poll(Dala.Gpu.Compute.submit(%{op: :barrier})) in [:pending, :completed]
      true
  """
  @spec poll(non_neg_integer()) :: :pending | :completed | {:error, term()}
  def poll(id) do
    case ExCubecl.poll(id) do
      {:ok, status} when status in [:pending, :running] -> :pending
      {:ok, :completed} -> :completed
      # It has finished: this does not wait, but gives the reason.
      {:ok, _} -> ExCubecl.wait(id)
      error -> error
    end
  end

  @doc """
  Waits until a command has finished.

      iex> Dala.Gpu.Compute.wait(Dala.Gpu.Compute.submit(%{op: :barrier}))
      :ok
  """
  @spec wait(non_neg_integer()) :: :ok | {:error, term()}
  def wait(id), do: ExCubecl.wait(id)

  ## Pipelines

  @doc """
  Makes an empty pipeline: see `Dala.Gpu.Compute.Pipeline`.

      iex> Dala.Gpu.Compute.pipeline_run(Dala.Gpu.Compute.pipeline())
      :ok
  """
  @spec pipeline() :: Pipeline.t()
  def pipeline, do: Pipeline.new()

  @doc """
  Adds a stage and returns the pipeline for chaining.

      iex> a = Dala.Gpu.Compute.buffer([-1.0], {1}, :f32)
      iex> stage = %{op: :run_kernel, kernel: :relu, inputs: [a], output: a, params: %{}}
      iex> Dala.Gpu.Compute.pipeline() |> Dala.Gpu.Compute.pipeline_add(stage) |> Dala.Gpu.Compute.pipeline_run()
      :ok
  """
  @spec pipeline_add(Pipeline.t(), map()) :: Pipeline.t()
  def pipeline_add(pipeline, stage), do: Pipeline.add(pipeline, stage)

  @doc """
  Runs all stages and waits until they have finished. If a stage is wrong nothing runs, and the reason names the stage.

      iex> pipeline = Dala.Gpu.Compute.pipeline() |> Dala.Gpu.Compute.pipeline_add(%{op: :run_kernel, kernel: nil})
      iex> Dala.Gpu.Compute.pipeline_run(pipeline)
      {:error, "stage 0: the kernel must be an atom or a string, got nil"}
  """
  @spec pipeline_run(Pipeline.t()) :: :ok | {:error, term()}
  def pipeline_run(pipeline), do: Pipeline.run(pipeline)

  @doc """
  Frees a pipeline and what it holds.

      iex> Dala.Gpu.Compute.free_pipeline(Dala.Gpu.Compute.pipeline())
      :ok
  """
  @spec free_pipeline(Pipeline.t()) :: :ok
  def free_pipeline(pipeline), do: Pipeline.free(pipeline)

  defp make(data, shape, dtype) do
    %Buffer{ref: expect(ExCubecl.buffer(data, extents(shape), dtype)), shape: shape, dtype: dtype}
  end

  defp extents(shape) when is_tuple(shape), do: Tuple.to_list(shape)
  defp extents(other), do: raise(ArgumentError, "the shape must be a tuple, got #{inspect(other)}")

  defp expect({:ok, value}), do: value
  defp expect({:error, reason}), do: raise(ArgumentError, "#{reason}")

  defp refs(buffers) when is_list(buffers), do: Enum.map(buffers, &ref/1)
  defp refs(other), do: other

  defp ref(%Buffer{ref: ref}), do: ref
  defp ref(other), do: other

  defp submitted({:ok, id}), do: id

  # A number whose status is the reason.
  defp submitted({:error, reason}) do
    {:ok, id} = ExCubecl.NIF.fail_command("submit", reason)
    id
  end

  defp numbers(binary, :f32), do: floats(for(<<x::float-32-native <- binary>>, do: x), binary, 4)
  defp numbers(binary, :f64), do: floats(for(<<x::float-64-native <- binary>>, do: x), binary, 8)
  defp numbers(binary, :s32), do: for(<<x::signed-32-native <- binary>>, do: x)
  defp numbers(binary, :s64), do: for(<<x::signed-64-native <- binary>>, do: x)
  defp numbers(binary, :u32), do: for(<<x::unsigned-32-native <- binary>>, do: x)
  defp numbers(binary, :u8), do: :binary.bin_to_list(binary)

  # Elixir's patterns do not match infinities and NaN.
  defp floats(list, binary, bytes) do
    if length(list) == div(byte_size(binary), bytes) do
      list
    else
      for <<element::binary-size(bytes) <- binary>>, do: float(element)
    end
  end

  defp float(<<x::float-32-native>>), do: x
  defp float(<<x::float-64-native>>), do: x
  defp float(<<0x7F800000::32-native>>), do: :infinity
  defp float(<<0xFF800000::32-native>>), do: :neg_infinity
  defp float(<<0x7FF0000000000000::64-native>>), do: :infinity
  defp float(<<0xFFF0000000000000::64-native>>), do: :neg_infinity
  defp float(_), do: :nan

  defp expect_nx do
    unless Code.ensure_loaded?(Nx) do
      raise "Nx is not loaded: add {:nx, \"~> 0.7\"} to the dependencies of your project"
    end
  end
end
