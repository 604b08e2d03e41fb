#pragma once

#include "compile/cpu/host.hpp"

#include <cstddef>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::compile::cpu {

// Compiles LLVM modules to object code for the processor that this process runs on. Any number of threads may compile
// at the same time, each with its own LLVM context.
class HostTarget {
 public:
  explicit HostTarget(const Host& host);
  ~HostTarget();

  const Host& host() const noexcept { return host_; }

  // Processor, features and version of LLVM, for people and logs.
  const std::string& describe() const noexcept { return description_; }

  // Sets the target and data layout of a module that is still empty.
  void prepare(llvm::Module& module) const;

  // An ELF object with all functions of the module, which must use vectors already: it is cleaned up, not vectorised.
  // Throws an Error if the module is invalid or LLVM cannot compile it.
  std::vector<std::byte> compile(std::unique_ptr<llvm::Module> module) const;

  // The same as assembly text.
  std::string assembly(std::unique_ptr<llvm::Module> module) const;

 private:
  // A TargetMachine serves one thread at a time and is expensive to create: unused ones wait in idle_.
  std::unique_ptr<llvm::TargetMachine> take_machine() const;
  void give_back(std::unique_ptr<llvm::TargetMachine> machine) const;
  llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::CodeGenFileType type) const;

  Host host_;
  std::string cpu_;
  std::string features_;
  std::string tuned_for_;
  std::string triple_;
  std::string data_layout_;
  std::string description_;
  const llvm::Target* target_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<llvm::TargetMachine>> idle_;
};

}  // namespace tessera::compile::cpu
