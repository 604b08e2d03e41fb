defmodule Tessera.MixProject do
  use Mix.Project

  def project do
    [
      app: :tessera,
      version: "0.1.0",
      elixir: "~> 1.14",
      description: "Asynchronous GPU compute: the Elixir interface of Tessera",
      build_path: "../../build/elixir",
      # The compiler of the NIF is a module of this project, so it comes last.
      compilers: Mix.compilers() ++ [:tessera_nif],
      elixirc_paths: elixirc_paths(Mix.env()),
      deps: []
    ]
  end

  def application do
    [mod: {ExCubecl.Application, []}, extra_applications: [:logger]]
  end

  defp elixirc_paths(:test), do: ["lib", "test/support"]
  defp elixirc_paths(_), do: ["lib"]
end
