// The functions that a text needs, and those that they need.
#include "compile/gpu/functions.hpp"

#include "compile/gpu/dialect.hpp"
#include "core/text.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::compile::gpu {

namespace {

struct Named {
  Kept kept;
  std::string_view name;
};
constexpr Named names[] = {
    {Kept::f32, "f32"}, {Kept::f64, "f64"}, {Kept::s32, "s32"}, {Kept::s64, "s64"}, {Kept::u32, "u32"}};

std::string instance(std::string_view pattern, const Named& type, const Words& words) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '$') {
      ++i;
      if (pattern[i] == 'F') {
        result += words.type(type.kept);
      } else if (pattern[i] == 'X') {
        result += type.name;
      } else {  // $W(a, *, b): the product without the sign
        result += words.is_glsl()          ? "(a * b"
                  : type.kept == Kept::s32 ? "(int)((unsigned)a * (unsigned)b"
                                           : "(long)((unsigned long)a * (unsigned long)b";
        i = pattern.find(')', i) - 1;
      }
    } else if (pattern[i] == '#') {
      const std::size_t end = pattern.find('#', i + 1);
      const std::string number(pattern.substr(i + 1, end - i - 1));
      result += is_float(type.kept) ? words.number(type.kept, std::strtod(number.c_str(), nullptr))
                                    : words.integer(type.kept, std::strtoll(number.c_str(), nullptr, 10));
      i = end;
    } else {
      result += pattern[i];
    }
  }
  return result;
}

}  // namespace

std::string functions(const std::string& body, const Target& target) {
  const Words words(target);
  struct Candidate {
    std::string call;  // "t_exp_f32("
    std::string source;
    bool is_needed = false;
  };
  std::vector<Candidate> candidates;
  for (const auto& table : {functions_of_integers(), functions_of_floats()}) {
    for (const Function& function : table) {
      if (function.is_glsl_only && !words.is_glsl()) continue;
      for (const Named& type : names) {
        if (function.of.find(type.name) == std::string_view::npos) continue;
        if ((type.kept == Kept::f64 && !target.has_f64) || (type.kept == Kept::s64 && !target.has_s64)) continue;
        std::string call = instance(function.name, type, words);
        call += '(';
        candidates.push_back({std::move(call), instance(function.source, type, words)});
      }
    }
  }
  // What is needed, and what that needs.
  std::vector<const std::string*> open = {&body};
  while (!open.empty()) {
    const std::string& user = *open.back();
    open.pop_back();
    for (Candidate& candidate : candidates) {
      if (candidate.is_needed || user.find(candidate.call) == std::string::npos) continue;
      candidate.is_needed = true;
      open.push_back(&candidate.source);
    }
  }
  // All are told of first, so that their order does not matter.
  std::string told, defined;
  const std::string prefix = target.dialect == Dialect::cuda ? "__device__ " : "";
  for (const Candidate& candidate : candidates) {
    if (!candidate.is_needed) continue;
    const std::size_t start = candidate.source.starts_with("//") ? candidate.source.find('\n') + 1 : 0;
    told += core::text(prefix, candidate.source.substr(start, candidate.source.find('{') - start - 1), ";\n");
    defined += core::text(candidate.source.substr(0, start), prefix, candidate.source.substr(start));
  }
  return told + defined;
}

}  // namespace tessera::compile::gpu
