#pragma once

#include "compile/cpu/host.hpp"

#include <cstddef>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera::compile {

// Turns LLVM modules into object code for the processor this process runs on. Any number of threads may compile at the
// same time, each with modules of its own context.
class HostTarget {
 public:
  explicit HostTarget(const Host& host);
  ~HostTarget();

  const Host& host() const noexcept { return host_; }

  // Processor, features and version of LLVM, for people and logs.
  const std::string& describe() const noexcept { return description_; }

  // Gives a module its target and data layout; before anything is put into it.
  void prepare(llvm::Module& module) const;

  // An ELF object with all functions of the module. The module is expected in SSA form with vectors of its own choice:
  // it is cleaned up, not vectorised. A module that is wrong, or that LLVM cannot compile, is an Error.
  std::vector<std::byte> compile(std::unique_ptr<llvm::Module> module) const;

  // The same as assembly, to look at.
  std::string assembly(std::unique_ptr<llvm::Module> module) const;

 private:
  // Machines are not for several threads at once and not free to make: those not in use wait in idle_.
  std::unique_ptr<llvm::TargetMachine> take_machine() const;
  void give_back(std::unique_ptr<llvm::TargetMachine> machine) const;
  llvm::SmallVector<char, 0> emit(llvm::Module& module, llvm::CodeGenFileType type) const;

  Host host_;
  std::string cpu_;
  std::string features_;
  std::string triple_;
  std::string data_layout_;
  std::string description_;
  const llvm::Target* target_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<llvm::TargetMachine>> idle_;
};

}  // namespace tessera::compile
