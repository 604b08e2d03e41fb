// Elixir terms from C++ and back.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <erl_nif.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera_nif {

using Term = ERL_NIF_TERM;

// A term of the wrong type: becomes an ArgumentError.
struct BadArgument : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
// A call that is refused: becomes {:error, text}.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The body of a NIF. Exceptions become terms: see call_guarded.
using Body = Term (*)(ErlNifEnv* env, const Term* argv);

// Calls a body on a scheduler's thread; BadArgument is raised in the calling process.
Term call_guarded(ErlNifEnv* env, Body body, const Term* argv) noexcept;
// The same for threads of ours, where nothing can be raised: BadArgument becomes {:raise, text}.
Term call_in_background(ErlNifEnv* env, Body body, const Term* argv) noexcept;
// Whether this thread is one of ours, on which calls may take their time.
bool is_in_background() noexcept;

// The environment to send messages from: that of the NIF or destructor that runs on this thread, or null on other
// threads. Callbacks of commands may run on either.
ErlNifEnv* calling_env() noexcept;
class Calling {
 public:
  explicit Calling(ErlNifEnv* env) noexcept;
  ~Calling();
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  ErlNifEnv* outer_;
};

Term atom(ErlNifEnv* env, const char* name);
// Those of every small command, made once.
struct Atoms {
  Term nil, ok, error, tessera, completed;
};
const Atoms& atoms() noexcept;
void make_atoms(ErlNifEnv* env);

Term binary(ErlNifEnv* env, std::string_view text);
Term ok(ErlNifEnv* env, Term value);
Term error(ErlNifEnv* env, std::string_view reason);

// Throws Refused with the library's last error unless the code is TESSERA_OK.
void expect_ok(tessera_code code);

// What a term must be; `name` is the argument's in messages.
std::string expect_text(ErlNifEnv* env, Term term, std::string_view name);
// nil is an empty text.
std::string expect_text_or_nil(ErlNifEnv* env, Term term, std::string_view name);
std::uint64_t expect_number(ErlNifEnv* env, Term term, std::string_view name);
ErlNifPid expect_pid(ErlNifEnv* env, Term term, std::string_view name);
std::vector<std::int64_t> expect_shape(ErlNifEnv* env, Term term);
tessera_dtype expect_dtype(ErlNifEnv* env, Term term);
// The index of an atom in a list of names that ends with null.
int expect_choice(ErlNifEnv* env, Term term, std::string_view name, const char* const* choices);
// The atom's name; "" for another term.
std::string atom_name(ErlNifEnv* env, Term term);
bool is_nil(Term term);
// A term as text, cut to some 60 characters, for messages.
std::string show(Term term);

}  // namespace tessera_nif
