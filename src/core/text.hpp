#pragma once

#include <locale>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace tessera::core {

// Concatenates printable values.
template <class... Part>
std::string text(const Part&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());  // independent of the global locale
  (stream << ... << parts);
  return std::move(stream).str();
}

// The candidate most similar to `name`; empty if none is close enough for `name` to be a typo of it.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

// ", did you mean 'relu'?", or an empty string.
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace tessera::core
