defmodule Dala.Gpu.Compute.Pipeline do
  @moduledoc """
  Several stages that run as one.

  A stage is a map with

    * `:op`: `:run_kernel`, `:copy_buffer` or `:barrier`
    * `:kernel`, an atom or a string, for `:run_kernel`
    * `:inputs`, a list of buffers
    * `:output`, a buffer
    * `:params`, a map of the kernel's parameters

  Buffers are `Dala.Gpu.Compute.Buffer` structs or their references. A `:copy_buffer` has one input, a `:barrier` has no
  buffers: the stages after it run after those before it.

  A pipeline is a reference to its stages: `add/2` changes it and returns it for chaining. All its copies have the stage
  then, and the field `:stages` shows those it had when the copy was returned.
  """

  alias Dala.Gpu.Compute.Buffer
  alias ExCubecl.{NIF, Params}

  defstruct ref: nil, stages: []

  @type stage :: %{
          required(:op) => atom(),
          optional(:kernel) => atom() | String.t() | nil,
          optional(:inputs) => [Buffer.t() | reference()],
          optional(:output) => Buffer.t() | reference() | nil,
          optional(:params) => map()
        }
  @type t :: %__MODULE__{ref: reference() | nil, stages: [stage()]}

  @doc """
  Makes an empty pipeline.

      iex> Dala.Gpu.Compute.Pipeline.stages(Dala.Gpu.Compute.Pipeline.new())
      []
  """
  @spec new() :: t()
  def new do
    {:ok, ref} = NIF.pipeline_new(false)
    %__MODULE__{ref: ref}
  end

  @doc """
  Adds a stage and returns the pipeline. A wrong stage is told by `run/1`.

      iex> a = Dala.Gpu.Compute.buffer([-1.0], {1}, :f32)
      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :run_kernel, kernel: :relu, inputs: [a], output: a})
      iex> Dala.Gpu.Compute.Pipeline.stage_count(pipeline)
      1
  """
  @spec add(t(), map()) :: t()
  def add(%__MODULE__{ref: ref} = pipeline, stage) do
    case check(stage) do
      {:ok, op, kernel, inputs, outputs, params} ->
        expect_ok(NIF.pipeline_add(ref, op, kernel, inputs, outputs, params, stage, nil))

      {:error, problem} ->
        expect_ok(NIF.pipeline_add(ref, :barrier, nil, [], [], nil, stage, problem))
    end

    %{pipeline | stages: stages(pipeline)}
  end

  @doc """
  Runs all stages and waits until they have finished. If a stage is wrong nothing runs, and the reason names the stage,
  the first being 0.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.run(pipeline)
      :ok
      iex> pipeline |> Dala.Gpu.Compute.Pipeline.add(%{op: :explode}) |> Dala.Gpu.Compute.Pipeline.run()
      {:error, "stage 0: unknown op :explode, expected :run_kernel, :copy_buffer or :barrier"}
  """
  @spec run(t()) :: :ok | {:error, term()}
  def run(%__MODULE__{ref: ref}) do
    with {:ok, id, _stages} <- NIF.call(:pipeline_submit, [ref, nil, nil]) do
      ExCubecl.wait(id)
    end
  end

  @doc """
  Submits all stages as one command and gives its number at once. The options are those of `ExCubecl.submit/5`.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> {:ok, command} = Dala.Gpu.Compute.Pipeline.submit(pipeline)
      iex> ExCubecl.wait(command)
      :ok
  """
  @spec submit(t(), [ExCubecl.option()]) :: {:ok, ExCubecl.command_id()} | {:error, term()}
  def submit(%__MODULE__{ref: ref}, options \\ []), do: ExCubecl.pipeline_submit(ref, options)

  @doc """
  The stages, in the order in which they were added.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.add(pipeline, %{op: :barrier})
      iex> Dala.Gpu.Compute.Pipeline.stages(pipeline)
      [%{op: :barrier}]
  """
  @spec stages(t()) :: [stage()]
  def stages(%__MODULE__{ref: ref}) do
    {:ok, stages} = NIF.pipeline_stages(ref)
    stages
  end

  @doc """
  The number of stages.

      iex> Dala.Gpu.Compute.Pipeline.stage_count(Dala.Gpu.Compute.Pipeline.new())
      0
  """
  @spec stage_count(t()) :: non_neg_integer()
  def stage_count(%__MODULE__{} = pipeline), do: length(stages(pipeline))

  @doc """
  Frees the pipeline and what it holds. Later uses are errors.

      iex> pipeline = Dala.Gpu.Compute.Pipeline.new()
      iex> Dala.Gpu.Compute.Pipeline.free(pipeline)
      :ok
      iex> Dala.Gpu.Compute.Pipeline.run(pipeline)
      {:error, "the pipeline has been freed"}
  """
  @spec free(t()) :: :ok
  def free(%__MODULE__{ref: ref}), do: NIF.pipeline_free(ref)

  defp expect_ok(:ok), do: :ok
  defp expect_ok({:error, reason}), do: raise(ArgumentError, reason)

  # What the NIF needs of a stage. Its kernel and parameters are checked when the pipeline is compiled.
  defp check(%{op: :barrier}), do: {:ok, :barrier, nil, [], [], nil}

  defp check(%{op: op} = stage) when op in [:run_kernel, :copy_buffer] do
    with {:ok, kernel} <- kernel(op, Map.get(stage, :kernel)),
         {:ok, inputs} <- inputs(Map.get(stage, :inputs, [])),
         {:ok, output} <- buffer(Map.get(stage, :output), "the output") do
      {:ok, op, kernel, inputs, [output], Params.encode(Map.get(stage, :params, %{}))}
    end
  rescue
    error in ArgumentError -> {:error, error.message}
  end

  defp check(%{op: op}), do: {:error, "unknown op #{inspect(op)}, expected :run_kernel, :copy_buffer or :barrier"}
  defp check(other), do: {:error, "a stage must be a map with an :op, got #{inspect(other, limit: 5)}"}

  defp kernel(:copy_buffer, _), do: {:ok, nil}
  defp kernel(_, kernel) when is_binary(kernel), do: {:ok, kernel}
  defp kernel(_, kernel) when is_atom(kernel) and not is_nil(kernel), do: {:ok, Atom.to_string(kernel)}
  defp kernel(_, other), do: {:error, "the kernel must be an atom or a string, got #{inspect(other)}"}

  defp inputs(inputs) when is_list(inputs) do
    inputs
    |> Enum.with_index()
    |> Enum.reduce_while({:ok, []}, fn {input, index}, {:ok, before} ->
      case buffer(input, "input #{index}") do
        {:ok, ref} -> {:cont, {:ok, [ref | before]}}
        error -> {:halt, error}
      end
    end)
    |> case do
      {:ok, refs} -> {:ok, Enum.reverse(refs)}
      error -> error
    end
  end

  defp inputs(other), do: {:error, "the inputs must be a list of buffers, got #{inspect(other)}"}

  defp buffer(%Buffer{ref: ref}, what), do: buffer(ref, what)

  defp buffer(ref, what) do
    NIF.buffer_info(ref)
    {:ok, ref}
  rescue
    ArgumentError -> {:error, "#{what} must be a buffer, got #{inspect(ref)}"}
  end
end
