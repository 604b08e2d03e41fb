defmodule NxTest do
  # Nx is not there in this project. A module with the public functions that are used stands in for it.
  use TesseraCase, async: false

  alias Dala.Gpu.Compute

  defp define_nx do
    defmodule Elixir.Nx do
      def type({:tensor, _, type, _}), do: type
      def shape({:tensor, _, _, shape}), do: shape
      def to_binary({:tensor, binary, _, _}), do: binary

      def from_binary(binary, {_, bits} = type), do: {:tensor, binary, type, {div(bit_size(binary), bits)}}
      def reshape({:tensor, binary, type, _}, shape), do: {:tensor, binary, type, shape}
    end
  end

  test "tensors of all six types become buffers and come back" do
    refute Code.ensure_loaded?(Nx)
    assert_raise RuntimeError, ~r/Nx is not loaded/, fn -> Compute.from_nx(:tensor) end
    buffer = Compute.buffer([1.0], {1}, :f32)
    assert_raise RuntimeError, ~r/Nx is not loaded/, fn -> Compute.to_nx(buffer, {1}, :f32) end

    define_nx()

    for {dtype, {_, bits} = type} <- [
          f32: {:f, 32},
          f64: {:f, 64},
          s32: {:s, 32},
          s64: {:s, 64},
          u32: {:u, 32},
          u8: {:u, 8}
        ] do
      tensor = {:tensor, :binary.copy(<<7>>, 6 * div(bits, 8)), type, {2, 3}}
      buffer = Compute.from_nx(tensor)
      assert {buffer.shape, buffer.dtype} == {{2, 3}, dtype}
      assert Compute.to_nx(buffer, {2, 3}, dtype) == tensor
      assert {:tensor, _, ^type, {6}} = Compute.to_nx(buffer, {6}, dtype)
    end

    assert_raise ArgumentError, ~r/:bf, 16/, fn -> Compute.from_nx({:tensor, <<0, 0>>, {:bf, 16}, {1}}) end
    assert_raise ArgumentError, ~r/type :f32, not :u8/, fn -> Compute.to_nx(buffer, {1}, :u8) end
  after
    :code.purge(Nx)
    :code.delete(Nx)
  end
end
