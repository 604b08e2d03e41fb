#pragma once

#include "compile/cpu/host.hpp"
#include "compile/cpu/llvm/vector_math.hpp"
#include "ir/ir.hpp"

#include <llvm/IR/IRBuilder.h>

namespace tessera::compile::cpu {

// Emits the arithmetic of the IR for LLVM values, which are single elements or vectors of them. It knows types, not
// programs or points.
class ElementMath {
 public:
  ElementMath(llvm::IRBuilderBase& builder, const llvm::Module& module, const Host& host);

  // Types. In memory a boolean takes a byte.
  llvm::Type* element_type(ir::Type type) const;
  llvm::Type* memory_type(ir::Type type) const;
  llvm::Type* like(llvm::Type* element, llvm::Value* shape_of) const;  // a vector of as many elements, or one
  llvm::Value* from_memory(ir::Type type, llvm::Value* value);
  llvm::Value* to_memory(ir::Type type, llvm::Value* value);

  // The operations of the IR.
  llvm::Value* unary(ir::Code code, ir::Type type, llvm::Value* x);
  llvm::Value* binary(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* multiply_add(ir::Type type, llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* converted(ir::Type from, ir::Type to, bool to_nearest, llvm::Value* x);

  // Reductions.
  llvm::Value* identity_of(ir::Code reduction, ir::Type type);
  llvm::Value* combine(ir::Code reduction, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* across_lanes(ir::Code reduction, ir::Type type, llvm::Value* value);
  llvm::Value* as_double(llvm::Value* sum) { return b_.CreateFPCast(sum, like(b_.getDoubleTy(), sum)); }

  // Integers of fewer bits than their type has.
  llvm::Value* shifted(ir::Code code, bool is_signed, llvm::Value* a, std::int64_t amount);
  llvm::Value* upper_half(llvm::Value* a, llvm::Value* b, bool is_signed);
  llvm::Value* average(llvm::Value* a, llvm::Value* b);
  struct RegisterForms {  // an instruction, by the bits of registers
    llvm::Intrinsic::ID of_128, of_256, of_512;
  };
  llvm::Value* instruction(const RegisterForms& forms, llvm::Value* a, llvm::Value* b);  // on whole registers

 private:
  VectorMath functions() const;
  llvm::Value* in_registers(const RegisterForms& forms, llvm::Value* a, llvm::Value* b);
  llvm::Value* to_whole(ir::Code code, llvm::Value* x);
  llvm::Value* divide(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_power(ir::Type type, llvm::Value* x, llvm::Value* n);
  llvm::Value* minimum(ir::Code code, ir::Type type, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_to_integer(ir::Type to, llvm::Value* x);
  llvm::Value* float_to_byte(bool to_nearest, llvm::Value* x);

  llvm::IRBuilderBase& b_;
  const Host& host_;
  const bool is_x86_;
};

}  // namespace tessera::compile::cpu
