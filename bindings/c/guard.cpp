#include "guard.hpp"

#include <algorithm>
#include <cstring>
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

void refuse(std::string_view call, std::string_view what) {
  throw Error(Errc::invalid_argument, "[" + std::string(call) + "] " + std::string(what));
}

void expect_data(const void* data, std::size_t bytes, Call call, std::string_view name) {
  if (!data && bytes > 0) refuse(call, std::string(name) + " is NULL");
}

Slot& expect_handle(const void* handle, Kind kind, std::string_view call, std::string_view name) {
  if (!handle) refuse(call, std::string(name) + " is NULL");
  Slot* const slot = pin(handle);
  if (!slot) refuse(call, std::string(name) + " has been released, or is no handle");
  if (slot->kind == kind) return *slot;
  const Kind given = slot->kind;
  unpin(*slot);
  refuse(call, std::string(name) + " is " + name_of(given) + ", not " + name_of(kind));
}

void release_handle(const void* handle, Kind kind, std::string_view call) noexcept {
  if (!handle) return;
  guarded([&] {
    Slot& slot = expect_handle(handle, kind, call, "the handle");
    const bool is_first = release(slot);
    unpin(slot);
    if (!is_first) refuse(call, "the handle has been released, or is no handle");
  });
}

std::string_view expect_text(const char* text, std::string_view call, std::string_view name) {
  return &expect(text, call, name);
}

DType expect_dtype(tessera_dtype dtype, std::string_view call) {
  return expect_enum<DType>(dtype, static_cast<int>(std::size(all_dtypes)), call, "dtype");
}

Shape expect_shape(const std::int64_t* shape, std::size_t rank, std::string_view call) {
  if (rank > 0) expect(shape, call, "shape");
  if (rank > TESSERA_MAX_RANK) refuse(call, "a rank of " + std::to_string(rank) + ", at most 8 is possible");
  return Shape(std::span<const std::int64_t>(shape, rank));
}

Params expect_params(const char* json, std::string_view call) {
  if (!json) return {};
  try {
    return Params::from_json(json);
  } catch (const Error& error) {
    throw Error(error.code(), "[" + std::string(call) + "] params: " + error.message());
  }
}

void copy_options(void* to, std::size_t size, const void* from, std::string_view call) {
  std::size_t given = 0;
  std::memcpy(&given, from, sizeof given);
  constexpr std::size_t largest = 4096;  // no structure is that large
  if (given < sizeof given || given > largest) {
    refuse(call, "the options' struct_size is " + std::to_string(given) + ": start from their defaults");
  }
  const auto* bytes = static_cast<const unsigned char*>(from);
  if (given > size && std::any_of(bytes + size, bytes + given, [](unsigned char byte) { return byte != 0; })) {
    refuse(call, "the options have members that this version of the library does not know");
  }
  std::memcpy(to, from, std::min(size, given));
}

void copy_info(void* to, const void* from, std::size_t size, std::string_view call) {
  std::size_t given = 0;
  std::memcpy(&given, to, sizeof given);
  constexpr std::size_t largest = 4096;
  if (given < sizeof given || given > largest) {
    refuse(call, "struct_size is " + std::to_string(given) + ": set it to the structure's sizeof");
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
