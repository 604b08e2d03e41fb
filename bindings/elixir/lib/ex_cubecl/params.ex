defmodule ExCubecl.Params do
  @moduledoc false
  # Parameters of kernels as JSON, which is what the C interface takes.

  @spec encode(term()) :: String.t() | nil
  def encode(params) when params == %{} or params == [], do: nil

  def encode(params) when is_map(params) and not is_struct(params), do: object(Map.to_list(params))

  def encode(params) do
    if Keyword.keyword?(params) do
      object(params)
    else
      raise ArgumentError, "params must be a map or a keyword list, got #{inspect(params, limit: 5)}"
    end
  end

  defp object(pairs) do
    members = Enum.map_intersperse(pairs, ",", fn {name, value} -> [string(name(name)), ":", value(value, name)] end)

    IO.iodata_to_binary(["{", members, "}"])
  end

  defp name(name) when is_binary(name), do: name
  defp name(name) when is_atom(name) and not is_nil(name), do: Atom.to_string(name)
  defp name(other), do: raise(ArgumentError, "a parameter's name must be an atom or a string, got #{inspect(other)}")

  defp value(value, _) when is_boolean(value), do: Atom.to_string(value)
  defp value(value, _) when is_integer(value), do: Integer.to_string(value)
  defp value(value, _) when is_float(value), do: Float.to_string(value)
  defp value(value, _) when is_binary(value), do: string(value)
  defp value(value, _) when is_atom(value) and not is_nil(value), do: string(Atom.to_string(value))
  defp value(value, name) when is_tuple(value), do: value(Tuple.to_list(value), name)

  defp value([_ | _] = list, name) do
    if List.improper?(list), do: refuse(list, name)
    ["[", Enum.map_intersperse(list, ",", &value(&1, name)), "]"]
  end

  defp value([], _), do: "[]"
  defp value(value, name), do: refuse(value, name)

  @spec refuse(term(), term()) :: no_return()
  defp refuse(value, name) do
    raise ArgumentError, "the parameter #{inspect(name)} cannot be #{inspect(value, limit: 5)}"
  end

  defp string(text) do
    unless String.valid?(text), do: raise(ArgumentError, "params have text that is not UTF-8: #{inspect(text)}")
    ["\"", for(<<char::utf8 <- text>>, do: escape(char)), "\""]
  end

  defp escape(?"), do: "\\\""
  defp escape(?\\), do: "\\\\"
  defp escape(char) when char < 0x20, do: "\\u" <> String.pad_leading(Integer.to_string(char, 16), 4, "0")
  defp escape(char), do: <<char::utf8>>
end
