#include "terms.hpp"

#include <cstring>
#include <new>

namespace tessera_nif {

namespace {

thread_local ErlNifEnv* this_env = nullptr;
thread_local bool is_background = false;
Atoms made_atoms{};

Term argument_error(ErlNifEnv* env, std::string_view text) {
  Term keys[] = {atom(env, "__struct__"), atom(env, "__exception__"), atom(env, "message")};
  Term values[] = {atom(env, "Elixir.ArgumentError"), atom(env, "true"), binary(env, text)};
  Term map = 0;
  enif_make_map_from_arrays(env, keys, values, 3, &map);
  return map;
}

template <class OnBadArgument>
Term guard(ErlNifEnv* env, Body body, const Term* argv, OnBadArgument&& on_bad_argument) noexcept {
  try {
    return body(env, argv);
  } catch (const BadArgument& bad) {
    return on_bad_argument(bad.what());
  } catch (const std::bad_alloc&) {
    return error(env, "out of host memory");
  } catch (const std::exception& failure) {
    return error(env, failure.what());
  }
}

}  // namespace

Term call_guarded(ErlNifEnv* env, Body body, const Term* argv) noexcept {
  const Calling calling(env);
  return guard(env, body, argv, [&](const char* text) { return enif_raise_exception(env, argument_error(env, text)); });
}

Term call_in_background(ErlNifEnv* env, Body body, const Term* argv) noexcept {
  is_background = true;
  return guard(env, body, argv,
               [&](const char* text) { return enif_make_tuple2(env, atom(env, "raise"), binary(env, text)); });
}

bool is_in_background() noexcept { return is_background; }

ErlNifEnv* calling_env() noexcept { return this_env; }
Calling::Calling(ErlNifEnv* env) noexcept : outer_(this_env) { this_env = env; }
Calling::~Calling() { this_env = outer_; }

Term atom(ErlNifEnv* env, const char* name) { return enif_make_atom(env, name); }
const Atoms& atoms() noexcept { return made_atoms; }
void make_atoms(ErlNifEnv* env) {
  made_atoms = {atom(env, "nil"), atom(env, "ok"), atom(env, "error"), atom(env, "tessera"), atom(env, "completed")};
}

Term binary(ErlNifEnv* env, std::string_view text) {
  Term term = 0;
  unsigned char* to = enif_make_new_binary(env, text.size(), &term);
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return term;
}

Term ok(ErlNifEnv* env, Term value) { return enif_make_tuple2(env, atoms().ok, value); }
Term error(ErlNifEnv* env, std::string_view reason) {
  return enif_make_tuple2(env, atoms().error, binary(env, reason));
}

void expect_ok(tessera_code code) {
  if (code != TESSERA_OK) throw Refused(tessera_last_error());
}

std::string expect_text(ErlNifEnv* env, Term term, std::string_view name) {
  ErlNifBinary given;
  if (!enif_inspect_binary(env, term, &given)) {
    throw BadArgument(std::string(name) + " must be a string, got " + show(term));
  }
  std::string text(reinterpret_cast<const char*>(given.data), given.size);
  if (text.find('\0') != std::string::npos) throw BadArgument(std::string(name) + " has a zero byte");
  return text;
}

std::string expect_text_or_nil(ErlNifEnv* env, Term term, std::string_view name) {
  return is_nil(term) ? std::string() : expect_text(env, term, name);
}

std::uint64_t expect_number(ErlNifEnv* env, Term term, std::string_view name) {
  ErlNifUInt64 number = 0;
  if (!enif_get_uint64(env, term, &number)) {
    throw BadArgument(std::string(name) + " must be an integer from 0 to 2^64-1, got " + show(term));
  }
  return number;
}

ErlNifPid expect_pid(ErlNifEnv* env, Term term, std::string_view name) {
  ErlNifPid pid;
  if (!enif_get_local_pid(env, term, &pid)) {
    throw BadArgument(std::string(name) + " must be a local pid, got " + show(term));
  }
  return pid;
}

std::vector<std::int64_t> expect_shape(ErlNifEnv* env, Term term) {
  std::vector<std::int64_t> shape;
  Term head = 0, tail = term;
  while (enif_get_list_cell(env, tail, &head, &tail)) {
    ErlNifSInt64 extent = 0;
    if (!enif_get_int64(env, head, &extent)) throw BadArgument("the shape must be integers, got " + show(head));
    if (extent < 0) throw Refused("the shape has a negative extent: " + show(term));
    if (shape.size() == TESSERA_MAX_RANK) throw Refused("the shape has more than 8 extents: " + show(term));
    shape.push_back(extent);
  }
  if (!enif_is_empty_list(env, tail)) throw BadArgument("the shape must be a list of integers, got " + show(term));
  return shape;
}

tessera_dtype expect_dtype(ErlNifEnv* env, Term term) {
  static const char* const names[] = {"f32", "f64", "s32", "s64", "u32", "u8", nullptr};
  return static_cast<tessera_dtype>(expect_choice(env, term, "dtype", names));
}

int expect_choice(ErlNifEnv* env, Term term, std::string_view name, const char* const* choices) {
  const std::string given = atom_name(env, term);
  std::string list;
  for (int i = 0; choices[i]; ++i) {
    if (given == choices[i]) return i;
    list += std::string(i > 0 ? ", :" : ":") + choices[i];
  }
  throw BadArgument("unsupported " + std::string(name) + ": " + show(term) + ", expected one of " + list);
}

std::string atom_name(ErlNifEnv* env, Term term) {
  unsigned length = 0;
  if (!enif_get_atom_length(env, term, &length, ERL_NIF_LATIN1)) return {};
  std::string name(length + 1, '\0');
  enif_get_atom(env, term, name.data(), length + 1, ERL_NIF_LATIN1);
  name.resize(length);
  return name;
}

bool is_nil(Term term) { return enif_is_identical(term, atoms().nil) != 0; }

std::string show(Term term) {
  char text[64];
  const int length = enif_snprintf(text, sizeof text, "%T", term);
  std::string shown = text;
  if (length >= static_cast<int>(sizeof text)) shown += "…";
  return shown;
}

}  // namespace tessera_nif
