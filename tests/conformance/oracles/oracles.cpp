#include "conformance/oracles/oracles.hpp"

namespace tessera::conformance {

double Call::number(std::string_view name, double otherwise) const {
  const Value* value = params.find(name);
  return value ? value->number() : otherwise;
}

Real Call::exact_number(std::string_view name, Real otherwise) const {
  const Value* value = params.find(name);
  if (!value) return otherwise;
  return value->is_integer() ? static_cast<Real>(value->integer()) : static_cast<Real>(value->number());
}

std::int64_t Call::integer(std::string_view name, std::int64_t otherwise) const {
  const Value* value = params.find(name);
  return value ? value->integer() : otherwise;
}

std::pair<std::int64_t, std::int64_t> Call::two(std::string_view name,
                                                std::pair<std::int64_t, std::int64_t> otherwise) const {
  const Value* value = params.find(name);
  if (!value) return otherwise;
  if (value->is_integer()) return {value->integer(), value->integer()};
  return {value->items()[0].integer(), value->items()[1].integer()};
}

std::string Call::string(std::string_view name, std::string otherwise) const {
  const Value* value = params.find(name);
  return value ? std::string(value->string()) : otherwise;
}

std::vector<double> Call::list(std::string_view name, std::vector<double> otherwise) const {
  const Value* value = params.find(name);
  if (!value) return otherwise;
  std::vector<double> result;
  for (const Value& item : value->items()) result.push_back(item.number());
  return result;
}

int Call::axis(std::string_view name, int rank) const {
  const auto axis = static_cast<int>(integer(name, -1));
  return axis < 0 ? axis + rank : axis;
}

const Oracles& oracles() {
  static const Oracles all = [] {
    Oracles made;
    add_elementwise_oracles(made);
    add_reduction_oracles(made);
    add_linear_oracles(made);
    add_pool_oracles(made);
    add_generator_oracles(made);
    add_filter_oracles(made);
    add_color_oracles(made);
    add_geometry_oracles(made);
    add_sound_oracles(made);
    return made;
  }();
  return all;
}

}  // namespace tessera::conformance
