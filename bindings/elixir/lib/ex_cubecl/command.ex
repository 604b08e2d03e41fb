defmodule ExCubecl.Command do
  @moduledoc """
  A kernel call as data: what `ExCubecl.pipeline_add_struct/2` adds to a pipeline.
  """

  @enforce_keys [:op, :kernel, :inputs, :output]
  defstruct [:op, :kernel, :inputs, :output, params: %{}]

  @type t :: %__MODULE__{
          op: :run_kernel,
          kernel: String.t(),
          inputs: [reference()],
          output: reference(),
          params: map()
        }

  @doc """
  Describes a call of a kernel. Nothing is checked or run.

      iex> {:ok, a} = ExCubecl.buffer([-1.0, 1.0], [2])
      iex> command = ExCubecl.Command.run_kernel("relu", [a], a, %{slope: 0.1})
      iex> {command.op, command.kernel, command.params}
      {:run_kernel, "relu", %{slope: 0.1}}
  """
  @spec run_kernel(String.t(), [reference()], reference(), map()) :: t()
  def run_kernel(kernel, inputs, output, params \\ %{}) do
    %__MODULE__{op: :run_kernel, kernel: kernel, inputs: inputs, output: output, params: params}
  end

  @doc """
  The command as text, for people.

      iex> {:ok, a} = ExCubecl.buffer([1.0], [1])
      iex> ExCubecl.Command.to_string(ExCubecl.Command.run_kernel("relu", [a], a))
      "run_kernel relu, inputs: 1, params: %{}"
  """
  @spec to_string(t()) :: String.t()
  def to_string(%__MODULE__{} = command) do
    "#{command.op} #{command.kernel}, inputs: #{length(command.inputs)}, params: #{inspect(command.params)}"
  end
end
