#pragma once

#include <tessera/params.hpp>

#include "conformance/tensor.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What every kernel means, as plain loops, written from the kernels' contract and not from their sources.
namespace tessera::conformance {

struct Call {
  std::vector<Tensor> inputs;
  DType dtype = f32;  // of the output
  Shape shape;
  Params params;

  double number(std::string_view name, double otherwise) const;
  Real exact_number(std::string_view name, Real otherwise) const;  // of an integer all digits
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  // An integer, or a list {y, x}.
  std::pair<std::int64_t, std::int64_t> two(std::string_view name,
                                            std::pair<std::int64_t, std::int64_t> otherwise) const;
  std::string string(std::string_view name, std::string otherwise) const;
  std::vector<double> list(std::string_view name, std::vector<double> otherwise) const;
  int axis(std::string_view name, int rank) const;
};

// An element of the output before it is rounded to its type, and how far from it a result may be: it must lie between
// value - slack and value + slack, both rounded to the type. A slack of infinity allows anything.
struct Approx {
  Real value = 0;
  Real slack = 0;

  Approx() = default;
  Approx(Real exact) : value(exact) {}  // NOLINT(google-explicit-constructor): most are exact
  Approx(Real about, Real how_far) : value(about), slack(how_far) {}
};

struct Answer {
  std::vector<Approx> points;
  bool zeros_have_signs = true;

  explicit Answer(const Call& call) : points(static_cast<std::size_t>(call.shape.elements())) {}
};

using Oracle = std::function<Answer(const Call&)>;
using Oracles = std::map<std::string, Oracle, std::less<>>;

// All of them, by the kernel's name.
const Oracles& oracles();

void add_elementwise_oracles(Oracles& to);
void add_reduction_oracles(Oracles& to);
void add_linear_oracles(Oracles& to);
void add_pool_oracles(Oracles& to);
void add_generator_oracles(Oracles& to);
void add_filter_oracles(Oracles& to);
void add_color_oracles(Oracles& to);
void add_geometry_oracles(Oracles& to);
void add_sound_oracles(Oracles& to);

// A sum of products that was added up in some order in arithmetic of `dtype`, without an overflow on the way if there
// is none whatever the order.
class Sum {
 public:
  void add(Real term) {
    value_ += term;
    if (std::isfinite(term)) magnitude_ += std::fabs(term);
    ++count_;
  }
  Real value() const { return value_; }
  Real magnitude() const { return magnitude_; }
  Approx in(DType dtype) const {
    if (magnitude_ > greatest(dtype)) return {value_, infinity};
    if (!std::isfinite(value_)) return value_;
    return {value_, static_cast<Real>(count_) * epsilon(dtype) * magnitude_ + least_normal(dtype)};
  }

 private:
  Real value_ = 0;
  Real magnitude_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace tessera::conformance
