defmodule Mix.Tasks.Compile.TesseraNif do
  @moduledoc """
  Compiles the NIF against Tessera's C interface.

  The library is looked for in this order:

    * `TESSERA_BUILD_DIR`, a build directory of the repository, such as `build/release`
    * an installed one that `pkg-config` knows as `tessera-c`
    * the repository itself, which is then built with CMake into `build/release`

  `CXX` chooses the compiler (`g++`), `TESSERA_NIF_FLAGS` adds options to it.
  """
  use Mix.Task.Compiler

  @root Path.expand("../../../../..", __DIR__)
  @sources Path.expand("../../../c_src", __DIR__)

  @impl true
  def run(_args) do
    library = find_library()
    target = Path.join([Mix.Project.app_path(), "priv", "tessera_nif.so"])
    sources = Path.wildcard(Path.join(@sources, "*.cpp"))
    command = [compiler() | flags(library)]

    if stale?(target, command, library) do
      build(sources, target, command, library)
    else
      {:noop, []}
    end
  end

  @impl true
  def clean do
    _ = File.rm_rf!(Path.join(Mix.Project.app_path(), "priv"))
    :ok
  end

  defp compiler, do: System.get_env("CXX", "g++")

  defp flags(library) do
    erlang = Path.join([:code.root_dir(), "usr", "include"])
    own = String.split(System.get_env("TESSERA_NIF_FLAGS", ""))
    # Never unloaded: commands may be under way, and its threads run as long as the VM does.
    ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow", "-isystem", erlang] ++
      ["-Wl,-z,nodelete" | library.cflags] ++ own
  end

  # What the library is compiled and linked with.
  defp find_library do
    cond do
      dir = System.get_env("TESSERA_BUILD_DIR") -> in_build(Path.expand(dir))
      installed = installed() -> installed
      true -> build_repository()
    end
  end

  defp in_build(dir) do
    library = Path.join([dir, "src", "libtessera_c.so"])
    header = Path.join([@root, "include", "tessera", "tessera.h"])

    unless File.exists?(library) and File.exists?(header) do
      Mix.raise("TESSERA_BUILD_DIR: there is no #{library}. Build the target tessera_c, or unset the variable")
    end

    libs = ["-L#{Path.dirname(library)}", "-Wl,-rpath,#{Path.dirname(library)}", "-ltessera_c"]
    %{cflags: ["-I#{Path.join(@root, "include")}"], libs: libs, inputs: [header]}
  end

  defp installed do
    with path when is_binary(path) <- System.find_executable("pkg-config"),
         {cflags, 0} <- System.cmd(path, ["--cflags", "tessera-c"], stderr_to_stdout: true),
         {libs, 0} <- System.cmd(path, ["--libs", "tessera-c"]),
         {dir, 0} <- System.cmd(path, ["--variable=libdir", "tessera-c"]) do
      libs = String.split(libs) ++ ["-Wl,-rpath,#{String.trim(dir)}"]
      %{cflags: String.split(cflags), libs: libs, inputs: []}
    else
      _ -> nil
    end
  end

  defp build_repository do
    unless File.exists?(Path.join(@root, "CMakePresets.json")) do
      Mix.raise("Tessera was not found: install it (pkg-config tessera-c), or set TESSERA_BUILD_DIR")
    end

    cmake(["--preset", "release"])
    cmake(["--build", "--preset", "release", "--target", "tessera_c", "tessera_plugins"])
    in_build(Path.join([@root, "build", "release"]))
  end

  defp cmake(args) do
    Mix.shell().info("cmake #{Enum.join(args, " ")}")

    case System.cmd("cmake", args, cd: @root, into: IO.stream(), stderr_to_stdout: true) do
      {_, 0} -> :ok
      {_, status} -> Mix.raise("cmake #{Enum.join(args, " ")} failed with status #{status}")
    end
  end

  # The sources changed, or the command that they are compiled with.
  defp stale?(target, command, library) do
    inputs = Path.wildcard(Path.join(@sources, "*.{cpp,hpp}")) ++ [__ENV__.file | library.inputs]

    Mix.Utils.stale?(inputs, [target]) or File.read(target <> ".command") != {:ok, Enum.join(command, " ")} or
      File.read(target <> ".libraries") != {:ok, Enum.join(library.libs, " ")}
  end

  defp build(sources, target, command, library) do
    Mix.shell().info("Compiling the NIF (#{length(sources)} files)")
    objects = Path.join(Mix.Project.app_path(), "objects")
    File.mkdir_p!(objects)
    File.mkdir_p!(Path.dirname(target))

    made =
      sources
      |> Task.async_stream(&compile(&1, objects, command), timeout: :infinity)
      |> Enum.map(fn {:ok, object} -> object end)

    link = ["-shared", "-o", target <> ".new"] ++ made ++ library.libs
    execute(command ++ link)
    # Replaced as a whole, since another VM may have loaded it.
    File.rename!(target <> ".new", target)
    File.write!(target <> ".command", Enum.join(command, " "))
    File.write!(target <> ".libraries", Enum.join(library.libs, " "))
    forget_module()
    {:ok, []}
  end

  # Compiling the module has loaded it, without the NIF.
  defp forget_module do
    :code.purge(ExCubecl.NIF)
    :code.delete(ExCubecl.NIF)
    :persistent_term.erase(ExCubecl.NIF)
  end

  defp compile(source, objects, command) do
    object = Path.join(objects, Path.basename(source, ".cpp") <> ".o")
    execute(command ++ ["-c", source, "-o", object])
    object
  end

  defp execute([program | args]) do
    case System.cmd(program, args, stderr_to_stdout: true) do
      {"", 0} -> :ok
      {output, 0} -> Mix.shell().info(output)
      {output, _} -> Mix.raise("#{Enum.join([program | args], " ")}\n#{output}")
    end
  end
end
