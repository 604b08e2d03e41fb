defmodule Dala.Gpu.Compute.Buffer do
  @moduledoc """
  A buffer of `Dala.Gpu.Compute`: a reference to the device's memory, with its shape and element type.
  """

  @enforce_keys [:ref, :shape, :dtype]
  defstruct [:ref, :shape, :dtype]

  @type t :: %__MODULE__{ref: reference(), shape: tuple(), dtype: ExCubecl.dtype()}

  @doc """
  The bytes of a buffer.

      iex> Dala.Gpu.Compute.Buffer.size(Dala.Gpu.Compute.buffer_zeros({2, 3}, :f64))
      48
  """
  @spec size(t()) :: non_neg_integer()
  def size(%__MODULE__{ref: ref}) do
    {:ok, bytes} = ExCubecl.size(ref)
    bytes
  end
end
