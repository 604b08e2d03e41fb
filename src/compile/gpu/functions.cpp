// Selects the functions that a body calls, and those that they call.
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
  NumberKind kind;
  std::string_view name;
};
constexpr Named names[] = {{NumberKind::f32, "f32"},
                           {NumberKind::f64, "f64"},
                           {NumberKind::s32, "s32"},
                           {NumberKind::s64, "s64"},
                           {NumberKind::u32, "u32"}};

std::string instance(std::string_view pattern, const Named& type, const Syntax& words) {
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '$') {
      ++i;
      if (pattern[i] == 'F') {
        result += words.type(type.kind);
      } else if (pattern[i] == 'X') {
        result += type.name;
      } else {  // $W(a, *, b): the unsigned product
        result += words.is_glsl()                ? "(a * b"
                  : type.kind == NumberKind::s32 ? "(int)((unsigned)a * (unsigned)b"
                                                 : "(long)((unsigned long)a * (unsigned long)b";
        i = pattern.find(')', i) - 1;
      }
    } else if (pattern[i] == '#') {
      const std::size_t end = pattern.find('#', i + 1);
      const std::string number(pattern.substr(i + 1, end - i - 1));
      result += is_float(type.kind) ? words.number(type.kind, std::strtod(number.c_str(), nullptr))
                                    : words.integer(type.kind, std::strtoll(number.c_str(), nullptr, 10));
      i = end;
    } else {
      result += pattern[i];
    }
  }
  return result;
}

}  // namespace

std::string functions(const std::string& body, const Target& target) {
  const Syntax words(target);
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
        if ((type.kind == NumberKind::f64 && !target.has_f64) || (type.kind == NumberKind::s64 && !target.has_s64))
          continue;
        std::string call = instance(function.name, type, words);
        call += '(';
        candidates.push_back({std::move(call), instance(function.source, type, words)});
      }
    }
  }
  // The functions that are called, directly or by others.
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
  // All are declared first, so that their order does not matter.
  std::string declared, defined;
  const std::string prefix = target.dialect == Dialect::cuda ? "__device__ " : "";
  for (const Candidate& candidate : candidates) {
    if (!candidate.is_needed) continue;
    const std::size_t start = candidate.source.starts_with("//") ? candidate.source.find('\n') + 1 : 0;
    declared += core::text(prefix, candidate.source.substr(start, candidate.source.find('{') - start - 1), ";\n");
    defined += core::text(candidate.source.substr(0, start), prefix, candidate.source.substr(start));
  }
  return declared + defined;
}

}  // namespace tessera::compile::gpu
