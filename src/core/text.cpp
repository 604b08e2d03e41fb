#include "core/text.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tessera::core {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Levenshtein distance: letters to insert, delete or replace, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

constexpr std::size_t longest_name = 64;  // a longer one is not a typo, and slow to compare

bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

// Whether `part` is in `whole`, and begins and ends where words do: "max_pool" in "max_pool2d", not "sub" in
// "subtract".
bool has_words(std::string_view whole, std::string_view part) {
  for (std::size_t at = whole.find(part); at != std::string_view::npos; at = whole.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if ((at == 0 || !is_letter(whole[at - 1])) && (end == whole.size() || !is_letter(whole[end]))) return true;
  }
  return false;
}

// The beginning of a longer text, at most `size` bytes.
std::string_view beginning(std::string_view text, std::size_t size) {
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

}  // namespace

std::string shortened(std::string_view input, std::size_t most) {
  if (input.size() <= most) return std::string(input);
  return text(beginning(input, most), "… (", input.size(), " bytes)");
}

std::string in_quotes(std::string_view input) {
  if (input.size() <= longest_quoted) return text("'", input, "'");
  return text("'", beginning(input, longest_quoted), "…' (", input.size(), " bytes)");
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  if (name.size() > longest_name) return {};
  std::string_view best;
  bool best_has_words = false;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(name, candidate);
    // "max_pool" suggests "max_pool2d" rather than "max", and "sum" suggests "reduce_sum" rather than "sub".
    const bool contains_words = name.size() >= 3 && has_words(candidate, name);
    // "kernel_size" suggests "kernel", and "mul" suggests "matmul" if nothing better is known.
    const bool is_part = name.size() >= 3 && candidate.find(name) != std::string_view::npos;
    const bool is_longer = candidate.size() >= 3 && name.starts_with(candidate);
    if (!contains_words && (is_part || is_longer)) distance = std::min<std::size_t>(distance, 2);
    if (contains_words > best_has_words || (contains_words == best_has_words && distance < best_distance)) {
      best = candidate;
      best_has_words = contains_words;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view best = nearest(name, candidates);
  return best.empty() ? std::string() : text(", did you mean '", best, "'?");
}

}  // namespace tessera::core
