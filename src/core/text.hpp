#pragma once

#include <locale>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::core {

// One string of several printable things.
template <class... Part>
std::string text(const Part&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());  // the same text under every global locale
  (stream << ... << parts);
  return std::move(stream).str();
}

// The candidate that looks most like `name`; empty if none is near enough to be a typing error.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

// ", did you mean 'relu'?", or nothing.
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace tessera::core
