#pragma once

#include <tessera/error.hpp>

#include <gtest/gtest.h>

#include <exception>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::test {

// Expects that the call throws an Error with this code whose what() has these words in it.
//
//   expect_error(Errc::shape_mismatch, "got f32[4]", [&] { device.run("relu", {four}, five); });
template <class F>
void expect_error(Errc code, std::string_view words, F&& call,
                  const std::source_location where = std::source_location::current()) {
  const auto complain = [&](const std::string& what) {
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
        << "expected " << to_string(code) << " with \"" << words << "\", got " << what;
  };
  try {
    std::forward<F>(call)();
  } catch (const Error& error) {
    if (error.code() != code || std::string_view(error.what()).find(words) == std::string_view::npos) {
      complain(std::string(to_string(error.code())) + ": " + error.what());
    }
    return;
  } catch (const std::exception& other) {
    complain(std::string("an exception that is no Error: ") + other.what());
    return;
  }
  complain("no error");
}

}  // namespace tessera::test
