#include "guard.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

namespace tessera::c {

namespace {

struct LastError {
  std::string text;
  bool is_lost = false;  // there was no memory for the text
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

// No version of any structure is this large: struct_size was not set.
constexpr std::size_t largest_structure = 4096;

// An error about a text says which argument the text was.
template <class Read>
auto naming(Call call, const Argument& argument, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), "[" + std::string(call) + "] " + argument.text() + ": " + error.message());
  }
}

static_assert(static_cast<int>(Errc::invalid_argument) + 1 == TESSERA_INVALID_ARGUMENT);
static_assert(static_cast<int>(Errc::unsupported) + 1 == TESSERA_UNSUPPORTED);
static_assert(static_cast<int>(Errc::cancelled) + 1 == TESSERA_CANCELLED_ERROR);
static_assert(static_cast<int>(Errc::internal) + 1 == TESSERA_INTERNAL);

}  // namespace

tessera_code set_error(tessera_code code, std::string_view text) noexcept {
  LastError& error = last_error();
  try {
    error.text.assign(text);
    error.is_lost = false;
  } catch (const std::bad_alloc&) {
    error.is_lost = true;
  }
  return code;
}

tessera_code code_of(Errc code) noexcept { return static_cast<tessera_code>(static_cast<int>(code) + 1); }
tessera_code set_error(const Error& error) noexcept { return set_error(code_of(error.code()), error.what()); }

std::string Argument::text() const {
  std::string text = name;
  if (index) text.append("[").append(std::to_string(*index)).append("]");
  return text.append(member);
}

void refuse(Call call, std::string_view what) {
  throw Error(Errc::invalid_argument, "[" + std::string(call) + "] " + std::string(what));
}
void refuse(Call call, const Argument& argument, std::string_view what) {
  refuse(call, argument.text() + " is " + std::string(what));
}

Slot& expect_handle(const void* handle, Kind kind, Call call, const Argument& argument) {
  if (!handle) refuse(call, argument, "NULL");
  Slot* const slot = pin(handle);
  if (!slot) refuse(call, argument, "a released handle, or none at all");
  if (slot->kind == kind) return *slot;
  const Kind given = slot->kind;
  unpin(*slot);
  refuse(call, argument, std::string(name_of(given)) + ", not " + name_of(kind));
}

void release_handle(const void* handle, Kind kind, Call call) noexcept {
  if (!handle) return;
  guarded([&] {
    Slot& slot = expect_handle(handle, kind, call, "the argument");
    const bool is_first = release(slot);
    unpin(slot);
    if (!is_first) refuse(call, "the argument", "a released handle, or none at all");
  });
}

std::string_view expect_text(const char* text, Call call, const Argument& argument) {
  return &expect(text, call, argument);
}

DType expect_dtype(tessera_dtype dtype, Call call) {
  return expect_enum<DType>(dtype, static_cast<int>(std::size(all_dtypes)), call, "dtype");
}

Shape expect_shape(const std::int64_t* shape, std::size_t rank, Call call) {
  expect_array(shape, rank, call, "shape");
  if (rank > TESSERA_MAX_RANK) {
    refuse(call, "rank", std::to_string(rank) + ", more than " + std::to_string(TESSERA_MAX_RANK));
  }
  return Shape(std::span<const std::int64_t>(shape, rank));
}

Params expect_params(const char* json, Call call) {
  if (!json) return {};
  return naming(call, "params", [&] { return Params::from_json(json); });
}

Value expect_value(const char* json, Call call, const Argument& argument) {
  const std::string_view text = expect_text(json, call, argument);
  return naming(call, argument, [&] { return Value::from_json(text); });
}

std::chrono::nanoseconds nanoseconds(std::uint64_t count) noexcept {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(count, most)));
}

void copy_options(void* to, std::size_t size, const void* from, Call call) {
  std::size_t given = 0;
  std::memcpy(&given, from, sizeof given);
  if (given < sizeof given || given > largest_structure) {
    refuse(call, "options.struct_size", std::to_string(given) + ": start from the defaults");
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  if (given > size && std::any_of(bytes + size, bytes + given, [](unsigned char byte) { return byte != 0; })) {
    refuse(call, "the options have members that this version of the library does not know");
  }
  std::memcpy(to, from, std::min(size, given));
}

void copy_info(void* to, const void* from, std::size_t size, Call call) {
  std::size_t given = 0;
  std::memcpy(&given, to, sizeof given);
  if (given < sizeof given || given > largest_structure) {
    refuse(call, "info.struct_size", std::to_string(given) + ": set it to the structure's sizeof");
  }
  // A larger structure of a newer program: what this version does not know is zero.
  if (given > size) std::memset(static_cast<unsigned char*>(to) + size, 0, given - size);
  const std::size_t known = std::min(size, given);
  std::memcpy(static_cast<unsigned char*>(to) + sizeof given, static_cast<const unsigned char*>(from) + sizeof given,
              known - sizeof given);
}

}  // namespace tessera::c

using namespace tessera;

const char* tessera_last_error(void) {
  const c::LastError& error = c::last_error();
  return error.is_lost ? "out of host memory" : error.text.c_str();
}

const char* tessera_code_name(tessera_code code) {
  if (code == TESSERA_OK) return "ok";
  if (code == TESSERA_TIMED_OUT) return "timed_out";
  if (code < TESSERA_OK || code > TESSERA_INTERNAL) return "unknown";
  return to_string(static_cast<Errc>(static_cast<int>(code) - 1)).data();
}
