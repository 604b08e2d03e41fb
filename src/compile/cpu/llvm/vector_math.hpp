#pragma once

#include <llvm/IR/IRBuilder.h>

namespace tessera::compile::cpu {

// Emits the functions of <cmath> as straight-line vector code without calls, branches or tables, except for sin and cos
// of |x| >= 2^45, which call the C library lane by lane. Arguments are float, double or fixed vectors of them; results
// have the same type. The builder's fast-math flags are not used: every rounding matters.
//
// Results are within 2 ulp of the true value, subnormal ones too, and within 4 ulp for pow. Infinities, NaNs, signed
// zeros and numbers out of range give the same results as std::.
class VectorMath {
 public:
  // has_fma: the target has fused multiply-add. Without it the results are as good, with more instructions.
  VectorMath(llvm::IRBuilderBase& builder, bool has_fma) : builder_(builder), has_fma_(has_fma) {}

  // For targets without such an instruction; exact. round: halves away from zero.
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

}  // namespace tessera::compile::cpu
