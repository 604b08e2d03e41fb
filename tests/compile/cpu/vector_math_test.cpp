#include "compile/cpu/llvm/vector_math.hpp"

#include "compile/cpu/host.hpp"
#include "compile/cpu/llvm/target.hpp"
#include "compile/cpu/object_code.hpp"
#include "core/random.hpp"
#include "support/depth.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <limits>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera::compile::cpu {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Precise enough that its own error does not show, for float and double.
template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
struct Function {
  const char* name;
  llvm::Value* (*emit)(const VectorMath& math, llvm::Value* x, llvm::Value* y);
  Wider<T> (*reference)(Wider<T> x, Wider<T> y);
  double bound;  // in ulp
};

template <class T>
const std::vector<Function<T>> functions = {
    {"floor", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.floor(x); },
     [](Wider<T> x, Wider<T>) { return std::floor(x); }, 0},
    {"ceil", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.ceil(x); },
     [](Wider<T> x, Wider<T>) { return std::ceil(x); }, 0},
    {"round", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.round(x); },
     [](Wider<T> x, Wider<T>) { return std::round(x); }, 0},
    {"exp", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.exp(x); },
     [](Wider<T> x, Wider<T>) { return std::exp(x); }, 2},
    {"log", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.log(x); },
     [](Wider<T> x, Wider<T>) { return std::log(x); }, 2},
    {"sin", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.sin(x); },
     [](Wider<T> x, Wider<T>) { return std::sin(x); }, 2},
    {"cos", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.cos(x); },
     [](Wider<T> x, Wider<T>) { return std::cos(x); }, 2},
    {"tanh", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.tanh(x); },
     [](Wider<T> x, Wider<T>) { return std::tanh(x); }, 2},
    {"erf", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.erf(x); },
     [](Wider<T> x, Wider<T>) { return std::erf(x); }, 2},
    {"rsqrt", [](const VectorMath& m, llvm::Value* x, llvm::Value*) { return m.rsqrt(x); },
     [](Wider<T> x, Wider<T>) { return 1 / std::sqrt(x); }, 1.5},
    {"pow", [](const VectorMath& m, llvm::Value* x, llvm::Value* y) { return m.pow(x, y); },
     [](Wider<T> x, Wider<T> y) { return std::pow(x, y); }, 4},
};

// Where arguments come from: x, and y of the same number of elements for pow.
template <class T>
struct Arguments {
  std::vector<T> x;
  std::vector<T> y;

  void add(double a, double b = 1) {
    x.push_back(static_cast<T>(a));
    y.push_back(static_cast<T>(b));
  }
  void fill_up(std::size_t lanes) {
    while (x.size() % lanes != 0) add(1);
  }
};

template <class T>
std::vector<double> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<double> values;
  for (const double value : {0.0,
                             0.5,
                             1.0,
                             1.5,
                             2.0,
                             3.0,
                             4.0,
                             7.0,
                             0.1,
                             0.625,
                             10.0,
                             89.0,
                             104.0,
                             710.0,
                             746.0,
                             1e9,
                             0x1p23,
                             0x1p24,
                             0x1p52,
                             0x1p53,
                             0x1p53 + 2,
                             0x1p45,
                             1e15,
                             1e22,
                             inf,
                             double{Limits::min()},
                             double{Limits::denorm_min()},
                             double{Limits::max()},
                             double{1 + Limits::epsilon()},
                             double{1 - Limits::epsilon() / 2},
                             double{Limits::min() - Limits::denorm_min()}}) {
    values.push_back(value);
    values.push_back(-value);
  }
  values.push_back(nan);
  return values;
}

template <class T>
Arguments<T> arguments() {
  Arguments<T> all;
  for (const double x : special_values<T>()) {
    for (const double y : special_values<T>()) all.add(x, y);
  }
  core::Random random(1);
  const auto between = [&](double low, double high) { return low + (high - low) * random.fraction(); };
  const double widest = sizeof(T) == 4 ? 89 : 710;  // exponents of e
  for (int i = 0; i < test::rounds(100'000); ++i) {
    all.add(between(-1.2 * widest, widest), between(-3, 3));
    all.add(between(-4, 4), std::round(between(-20, 20)));
    all.add(between(0.5, 2), between(-1.5, 1.5) * widest);
    all.add(std::exp(between(-widest, widest)), between(-1.2, 1.2));
    const double x = between(0.7, 1.4) * std::exp2(between(-40, 40));
    all.add(x, between(-1.1, 1.1) * widest / std::log(x));                             // whole range of results
    all.add((random.below(2) != 0 ? 1 : -1) * std::exp(between(-20, 31)), 2);          // angles to 2^45
    all.add(between(-1, 1) * std::exp2(between(45, sizeof(T) == 4 ? 127 : 1023)), 2);  // and beyond
    all.add(static_cast<double>(random.below(1U << 30)) * 1.5707963267948966, 1);      // near the zeros of sin and cos
  }
  return all;
}

// Every 4,297th pattern of bits at full depth.
Arguments<float> patterns(float) {
  Arguments<float> all;
  const std::uint64_t step = 4297 * 100 / static_cast<std::uint64_t>(test::depth());
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += step) {
    all.x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    all.y.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits * 2654435761U)));
  }
  return all;
}

Arguments<double> patterns(double) {
  Arguments<double> all;
  core::Random random(2);
  for (int i = 0; i < test::rounds(200'000); ++i) {
    all.x.push_back(std::bit_cast<double>(random.next()));
    all.y.push_back(std::bit_cast<double>(random.next()));
  }
  return all;
}

// Distance in units of the last place that a T of the true value's size has. Infinite if it is wrong in kind.
template <class T>
double distance(T got, Wider<T> truth) {
  using Limits = std::numeric_limits<T>;
  const T rounded = static_cast<T>(truth);
  if (std::isnan(got) || std::isnan(rounded)) return std::isnan(got) && std::isnan(rounded) ? 0 : inf;
  if (got == rounded) return std::signbit(got) == std::signbit(rounded) ? 0.0 : inf;
  if (std::isinf(got) || std::isinf(rounded)) {  // right beside the largest number either will do
    return std::abs(std::isinf(got) ? rounded : got) >= Limits::max() * (1 - 2 * Limits::epsilon()) ? 1 : inf;
  }
  const int exponent = std::max(std::ilogb(truth), Limits::min_exponent - 1);
  return static_cast<double>(std::abs(got - truth) / std::ldexp(Wider<T>{1}, exponent - Limits::digits + 1));
}

template <class T>
using Kernel = void(T* to, const T* x, const T* y, std::int64_t count);

// A loop over vectors of so many lanes for every function.
template <class T>
std::unique_ptr<llvm::Module> kernels(llvm::LLVMContext& context, unsigned lanes, bool has_fma) {
  auto module = std::make_unique<llvm::Module>("kernels", context);
  llvm::IRBuilder<> ir(context);
  llvm::Type* scalar = sizeof(T) == 4 ? ir.getFloatTy() : ir.getDoubleTy();
  llvm::Type* vector = lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
  llvm::Type* pointer = ir.getPtrTy();
  llvm::Type* index = ir.getInt64Ty();
  for (const Function<T>& function : functions<T>) {
    auto* kernel =
        llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), {pointer, pointer, pointer, index}, false),
                               llvm::Function::ExternalLinkage, function.name, *module);
    auto* entry = llvm::BasicBlock::Create(context, "", kernel);
    auto* loop = llvm::BasicBlock::Create(context, "", kernel);
    auto* done = llvm::BasicBlock::Create(context, "", kernel);
    ir.SetInsertPoint(entry);
    ir.CreateBr(loop);
    ir.SetInsertPoint(loop);
    llvm::PHINode* at = ir.CreatePHI(index, 2);
    const auto element = [&](unsigned argument) { return ir.CreateGEP(scalar, kernel->getArg(argument), at); };
    llvm::Value* x = ir.CreateAlignedLoad(vector, element(1), llvm::Align(sizeof(T)));
    llvm::Value* y = ir.CreateAlignedLoad(vector, element(2), llvm::Align(sizeof(T)));
    ir.CreateAlignedStore(function.emit(VectorMath(ir, has_fma), x, y), element(0), llvm::Align(sizeof(T)));
    llvm::Value* next = ir.CreateAdd(at, ir.getInt64(lanes));
    at->addIncoming(ir.getInt64(0), entry);
    at->addIncoming(next, ir.GetInsertBlock());
    ir.CreateCondBr(ir.CreateICmpULT(next, kernel->getArg(3)), loop, done);
    ir.SetInsertPoint(done);
    ir.CreateRetVoid();
  }
  return module;
}

// The true values, computed once for all widths.
template <class T>
struct Expected {
  Arguments<T> arguments;
  std::vector<std::vector<Wider<T>>> truth;  // by function
};

template <class T>
const Expected<T>& expected() {
  static const Expected<T> all = [] {
    Expected<T> made{arguments<T>(), {}};
    const Arguments<T> more = patterns(T{});
    made.arguments.x.insert(made.arguments.x.end(), more.x.begin(), more.x.end());
    made.arguments.y.insert(made.arguments.y.end(), more.y.begin(), more.y.end());
    made.arguments.fill_up(16);
    for (const Function<T>& function : functions<T>) {
      std::vector<Wider<T>>& values = made.truth.emplace_back();
      for (std::size_t i = 0; i < made.arguments.x.size(); ++i) {
        values.push_back(function.reference(made.arguments.x[i], made.arguments.y[i]));
      }
    }
    return made;
  }();
  return all;
}

// Without has_fma the code is for the oldest processors, which lack much else too.
template <class T>
void check(unsigned lanes, bool has_fma) {
  const Host host = detect_host(has_fma ? nullptr : level_names().front().data());
  if (has_fma && !host.has_fma) return;
  const HostTarget target(host);
  llvm::LLVMContext context;
  const ObjectCode code(target.compile(kernels<T>(context, lanes, has_fma)));
  const auto& [arguments, truths] = expected<T>();
  std::vector<T> results(arguments.x.size());
  for (std::size_t f = 0; f < functions<T>.size(); ++f) {
    const Function<T>& function = functions<T>[f];
    code.function<Kernel<T>>(function.name)(results.data(), arguments.x.data(), arguments.y.data(),
                                            static_cast<std::int64_t>(results.size()));
    double worst = 0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const double error = distance(results[i], truths[f][i]);
      if (error > worst) {
        worst = error;
        where = i;
      }
    }
    std::cout.precision(17);
    std::cout << function.name << (sizeof(T) == 4 ? " f32" : " f64") << ", " << lanes << " lanes, fma "
              << (has_fma ? "on" : "off") << ": " << worst << " ulp\n";
    EXPECT_LE(worst, function.bound) << function.name << '(' << arguments.x[where] << ", " << arguments.y[where]
                                     << ") is " << results[where] << ", should be " << truths[f][where];
  }
}

template <class T>
void check_all() {
  for (const unsigned lanes : {1U, 4U, 8U, 16U}) {
    for (const bool has_fma : {false, true}) check<T>(lanes, has_fma);
  }
}

TEST(Vector_math, Is_accurate_in_f32_at_every_width) { check_all<float>(); }
TEST(Vector_math, Is_accurate_in_f64_at_every_width) { check_all<double>(); }

// The code is as accurate if the caller's builder has fast-math flags.
TEST(Vector_math, It_ignores_the_builders_fast_math_flags) {
  llvm::LLVMContext context;
  llvm::Module module("flags", context);
  llvm::IRBuilder<> ir(context);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(ir.getFloatTy(), {ir.getFloatTy()}, false),
                                          llvm::Function::ExternalLinkage, "f", module);
  ir.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  ir.setFastMathFlags(llvm::FastMathFlags::getFast());
  VectorMath(ir, true).exp(function->getArg(0));
  EXPECT_TRUE(ir.getFastMathFlags().isFast());
  for (const llvm::Instruction& instruction : function->front()) {
    EXPECT_FALSE(llvm::isa<llvm::FPMathOperator>(instruction) && instruction.getFastMathFlags().any());
  }
}

}  // namespace
}  // namespace tessera::compile::cpu
