#pragma once

#include <cstddef>
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

// Input as a message quotes it, so that megabytes of it do not become megabytes of message: its beginning, cut
// between characters, and its size. "abc", "aaaa… (1048576 bytes)".
inline constexpr std::size_t longest_quoted = 80;
std::string shortened(std::string_view input, std::size_t most = longest_quoted);
// The same in quotes: "'relu'", "'aaaa…' (1048576 bytes)".
// (Under the name quoted, argument-dependent lookup would prefer std::quoted for a std::string.)
std::string in_quotes(std::string_view input);

// The candidate that `name` was probably meant to be: the most similar of those that contain it as whole words
// ("reduce_sum" for "sum"), else the most similar. Empty if none is close enough.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

// ", did you mean 'relu'?", or an empty string.
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace tessera::core
