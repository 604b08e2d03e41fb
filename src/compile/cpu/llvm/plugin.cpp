#include "compile/cpu/llvm/plugin.hpp"

#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/target.hpp"
#include "compile/emitter_version.hpp"

#include <llvm/Support/raw_ostream.h>
#include <map>
#include <mutex>

namespace tessera::compile::cpu {

namespace {

// One for each kind of host: tests also compile for older ones.
const HostTarget& target_for(const Host& host) {
  static std::mutex mutex;
  static auto& targets =
      *new std::map<std::string, HostTarget>;  // never destroyed: other threads may still use one at exit
  const std::scoped_lock lock(mutex);
  return targets.try_emplace(host.description, host).first->second;
}

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

std::unique_ptr<llvm::Module> emit(llvm::LLVMContext& context, const HostTarget& target, const ir::Program& program,
                                   const Tiling& tiling, Form form) {
  auto module = std::make_unique<llvm::Module>(program.name, context);
  target.prepare(*module);
  Emitter(*module, program, tiling, target.host()).emit(form);
  return module;
}

std::vector<std::byte> compile_object(const ir::Program& program, const Tiling& tiling, const Host& host, Form form,
                                      const Dump& dump) {
  const HostTarget& target = target_for(host);
  llvm::LLVMContext context;
  auto module = emit(context, target, program, tiling, form);
  if (dump.wants("llvm")) dump.show("llvm", text_of(*module));
  if (dump.wants("asm")) dump.show("asm", target.assembly(emit(context, target, program, tiling, form)));
  return target.compile(std::move(module));
}

}  // namespace

}  // namespace tessera::compile::cpu

extern "C" __attribute__((visibility("default"))) const tessera::compile::cpu::Plugin tessera_llvm_plugin = {
    tessera::compile::emitter_version, &tessera::compile::cpu::compile_object};
