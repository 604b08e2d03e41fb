#pragma once

#include <tessera/error.hpp>
#include <tessera/params.hpp>
#include <tessera/shape.hpp>

#include "handles.hpp"

#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

// The border between C++ and C: no exception passes it, and every argument is checked.
namespace tessera::c {

// Remembers the text for tessera_last_error() and returns the code.
tessera_code set_error(tessera_code code, std::string_view text) noexcept;
tessera_code code_of(Errc code) noexcept;
tessera_code set_error(const Error& error) noexcept;

// The name of a function of the interface, for its messages.
using Call = std::string_view;

// Calls the function; an exception becomes an error code.
template <class Function>
tessera_code guarded(Function&& function) noexcept {
  try {
    function();
    return TESSERA_OK;
  } catch (const Error& error) {
    return set_error(error);
  } catch (const std::bad_alloc&) {
    return set_error(TESSERA_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return set_error(TESSERA_INTERNAL, error.what());
  } catch (...) {
    return set_error(TESSERA_INTERNAL, "a non-std::exception was thrown");
  }
}

// The same, with the name of the interface's function for the messages: guarded(__func__, [&](Call call) { … }).
template <class Function>
tessera_code guarded(const char* call, Function&& function) noexcept {
  return guarded([&] { function(Call(call)); });
}

// An argument's name in messages: device, inputs[2], bindings[0].value. Put together only if it is needed.
struct Argument {
  Argument(const char* of) : name(of) {}  // NOLINT(google-explicit-constructor)
  Argument(const char* of, std::size_t number, const char* part = "") : name(of), index(number), member(part) {}
  std::string text() const;

  const char* name;
  std::optional<std::size_t> index;
  const char* member = "";
};

[[noreturn]] void refuse(Call call, std::string_view what);
[[noreturn]] void refuse(Call call, const Argument& argument, std::string_view what);  // "argument is what"

template <class T>
T& expect(T* pointer, Call call, const Argument& argument) {
  if (!pointer) refuse(call, argument, "NULL");
  return *pointer;
}
// The address of `count` elements or bytes, which may be NULL if there are none.
template <class T>
void expect_array(const T* first, std::size_t count, Call call, const Argument& argument) {
  if (!first && count > 0) refuse(call, argument, "NULL");
}
// The same for what is copied one by one. No call needs this many: the count is wrong.
template <class T>
void expect_list(const T* first, std::size_t count, Call call, const Argument& argument) {
  constexpr std::size_t most = std::size_t{1} << 24;
  expect_array(first, count, call, argument);
  if (count > most) refuse(call, argument, "a list of " + std::to_string(count) + ", more than possible");
}

// Where a result goes: NULL or 0 until there is one.
template <class T>
T& result(T* out, Call call, const Argument& argument) {
  T& place = expect(out, call, argument);
  place = T{};
  return place;
}

// Throws for NULL, a released handle, another kind, or another number.
Slot& expect_handle(const void* handle, Kind kind, Call call, const Argument& argument);
template <class Handle>
Pinned<Handle> get(const Handle* handle, Call call, const Argument& argument) {
  return Pinned<Handle>(expect_handle(handle, HandleTraits<Handle>::kind, call, argument));
}

// What the tessera_…_release functions do. A bad handle is remembered as the last error.
void release_handle(const void* handle, Kind kind, Call call) noexcept;

std::string_view expect_text(const char* text, Call call, const Argument& argument);
// An enumerator of C as one of C++ with the same numbers.
template <class To, class From>
To expect_enum(From value, int count, Call call, const Argument& argument) {
  const auto number = static_cast<std::int32_t>(value);
  if (number < 0 || number >= count) refuse(call, argument, std::to_string(number) + ", which is none of its values");
  return static_cast<To>(number);
}
DType expect_dtype(tessera_dtype dtype, Call call);
Shape expect_shape(const std::int64_t* shape, std::size_t rank, Call call);
// JSON. NULL is no parameters.
Params expect_params(const char* json, Call call);
Value expect_value(const char* json, Call call, const Argument& argument);
// More than any duration is the longest.
std::chrono::nanoseconds nanoseconds(std::uint64_t count) noexcept;

// The options that the caller gave, in the form of this library: members that an older program does not know keep their
// defaults, and those of a newer one are refused unless they are zero.
void copy_options(void* to, std::size_t size, const void* from, Call call);
template <class Options>
Options options_or(const Options* given, const Options& defaults, Call call) {
  Options options = defaults;
  if (given) copy_options(&options, sizeof(Options), given, call);
  return options;
}
// Writes as much of an info structure as the caller's version of it has.
void copy_info(void* to, const void* from, std::size_t size, Call call);

}  // namespace tessera::c
