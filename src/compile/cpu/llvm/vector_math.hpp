#pragma once

#include <llvm/IR/IRBuilder.h>

namespace tessera::compile {

// Emits the functions of <cmath> as straight vector code: no calls, no branches, no tables, but for sin and cos of
// |x| >= 2^45, which are left to the C library lane by lane. Arguments are float, double or fixed vectors of them;
// results have the same type. The builder's fast-math flags are left out: every step counts.
//
// Results are within 2 ulp of the true value, subnormal ones too, and within 4 ulp for pow. Infinities, NaNs, signed
// zeros and numbers beyond the range give what std:: gives.
class VectorMath {
 public:
  // has_fma: the target multiplies and adds in one instruction. Without it the same holds, with more instructions.
  VectorMath(llvm::IRBuilderBase& builder, bool has_fma) : builder_(builder), has_fma_(has_fma) {}

  // For targets without an instruction; exact. round: halves away from zero.
  llvm::Value* floor(llvm::Value* x) const;
  llvm::Value* ceil(llvm::Value* x) const;
  llvm::Value* round(llvm::Value* x) const;

  llvm::Value* exp(llvm::Value* x) const;
  llvm::Value* log(llvm::Value* x) const;
  llvm::Value* sin(llvm::Value* x) const;
  llvm::Value* cos(llvm::Value* x) const;
  llvm::Value* tanh(llvm::Value* x) const;
  llvm::Value* erf(llvm::Value* x) const;
  llvm::Value* pow(llvm::Value* x, llvm::Value* y) const;
  llvm::Value* rsqrt(llvm::Value* x) const;  // 1 / sqrt(x), both correctly rounded

 private:
  llvm::IRBuilderBase& builder_;
  bool has_fma_;
};

}  // namespace tessera::compile
