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

}  // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  if (name.size() > longest_name) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    std::size_t distance = edit_distance(name, candidate);
    // "add" suggests "elementwise_add" although it is many letters away, and "kernel_size" suggests "kernel".
    const bool is_part = name.size() >= 3 && candidate.find(name) != std::string_view::npos;
    if (is_part || (candidate.size() >= 3 && name.starts_with(candidate)))
      distance = std::min<std::size_t>(distance, 2);
    if (distance < best_distance) {
      best = candidate;
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
