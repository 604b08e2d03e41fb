#include "compile/cpu/llvm/target.hpp"

#include <tessera/error.hpp>

#include "compile/cpu/host.hpp"
#include "compile/cpu/object_code.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tessera::compile::cpu {
namespace {

using test::expect_error;

// kernel(to, a, b): one vector of `lanes` floats, to = a * b + a.
std::unique_ptr<llvm::Module> multiply_add(llvm::LLVMContext& context, unsigned lanes) {
  auto module = std::make_unique<llvm::Module>("multiply_add", context);
  llvm::IRBuilder<> ir(context);
  llvm::Type* pointer = ir.getPtrTy();
  llvm::Type* vector = llvm::FixedVectorType::get(ir.getFloatTy(), lanes);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), {pointer, pointer, pointer}, false),
                                          llvm::Function::ExternalLinkage, "kernel", *module);
  ir.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  llvm::Value* a = ir.CreateAlignedLoad(vector, function->getArg(1), llvm::Align(4));
  llvm::Value* b = ir.CreateAlignedLoad(vector, function->getArg(2), llvm::Align(4));
  ir.CreateAlignedStore(ir.CreateFAdd(ir.CreateFMul(a, b), a), function->getArg(0), llvm::Align(4));
  ir.CreateRetVoid();
  return module;
}

using Kernel = void(float*, const float*, const float*);

void expect_multiply_add(const HostTarget& target, unsigned lanes) {
  llvm::LLVMContext context;
  const ObjectCode code(target.compile(multiply_add(context, lanes)));
  std::vector<float> a(lanes, 3);
  std::vector<float> b(lanes, 4);
  std::vector<float> to(lanes);
  code.function<Kernel>("kernel")(to.data(), a.data(), b.data());
  EXPECT_EQ(to, std::vector<float>(lanes, 15));
}

TEST(Host, Is_described_without_a_compiler) {
  EXPECT_FALSE(host().description.empty());
  EXPECT_EQ(detect_host(nullptr).description, detect_host("").description);
  expect_error(Errc::invalid_argument, "'mmx'", [] { detect_host("mmx"); });
}

TEST(Host, Can_be_capped) {
  const Host capped = detect_host(level_names().front().data());
  EXPECT_EQ(capped.vector_bits, 128U);
  EXPECT_TRUE(capped.capped);
  EXPECT_EQ(capped.extensions, "");
  EXPECT_NE(capped.description, detect_host(nullptr).description);
}

TEST(Host_target, Compiles_vectors_of_any_width_at_every_level) {
  const auto check = [](const char* cap) {
    const HostTarget target(detect_host(cap));
    for (const unsigned lanes : {1U, 4U, 8U, 16U, 32U}) expect_multiply_add(target, lanes);
  };
  check(nullptr);
  for (const std::string_view level : level_names()) check(level.data());
}

TEST(Host_target, Uses_the_whole_width) {
  llvm::LLVMContext context;
  const HostTarget target(host());
  const std::string text = target.assembly(multiply_add(context, target.host().vector_bits / 32));
#if defined(__x86_64__)
  const char* registers = target.host().vector_bits == 512   ? "%zmm"
                          : target.host().vector_bits == 256 ? "%ymm"
                                                             : "%xmm";
#else
  const char* registers = ".4s";  // NEON: four floats
#endif
  EXPECT_NE(text.find(registers), std::string::npos) << text;
  EXPECT_NE(target.describe().find("LLVM 19"), std::string::npos);
}

TEST(Host_target, An_invalid_module_is_an_error) {
  const HostTarget target(host());
  llvm::LLVMContext context;
  auto module = multiply_add(context, 4);
  module->getFunction("kernel")->back().getTerminator()->eraseFromParent();
  expect_error(Errc::internal, "invalid LLVM module", [&] { target.compile(std::move(module)); });
}

TEST(Host_target, Compiles_in_several_threads_at_once) {
  const HostTarget target(host());
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&target, i] {
      for (unsigned repeat = 0; repeat < 5; ++repeat) expect_multiply_add(target, 4U << i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera::compile::cpu
