#include "compile/cpu/llvm/target.hpp"

#include <tessera/error.hpp>

#include "core/text.hpp"

#include <algorithm>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

namespace tessera::compile::cpu {

namespace {

// Which instructions code may use: LLVM's names for the processor and its features. `tuned_for` is the processor whose
// speeds decide among them; empty if that is the same.
struct Instructions {
  std::string cpu;
  std::string features;
  std::string tuned_for;
};

#if defined(__x86_64__)

// All features of the host, including those it lacks: a virtual machine may mask features that the processor's name
// implies.
std::string host_features() {
  std::vector<std::string> features;
  for (const auto& [name, enabled] : llvm::sys::getHostCPUFeatures()) {
    features.push_back((enabled ? '+' : '-') + name.str());
  }
  std::sort(features.begin(), features.end());
  std::string joined;
  for (const std::string& feature : features) joined += (joined.empty() ? "" : ",") + feature;
  return joined;
}

// LLVM's name for the processor of a level.
const char* level_cpu(VectorLevel level) {
  switch (level) {
    case VectorLevel::avx512:
      return "x86-64-v4";
    case VectorLevel::avx2:
      return "x86-64-v3";
    case VectorLevel::baseline:
      return "x86-64";
  }
  return "generic";
}

Instructions instructions_of(const Host& host) {
  if (host.capped) return {.cpu = level_cpu(host.level), .features = "", .tuned_for = ""};
  return {.cpu = llvm::sys::getHostCPUName().str(), .features = host_features(), .tuned_for = ""};
}

#else

// The processor's name only tunes: it implies features that a virtual machine may mask, and LLVM does not tell which.
Instructions instructions_of(const Host& host) {
  return {.cpu = "generic",
          .features = "+neon" + host.extensions,
          .tuned_for = host.capped ? "" : llvm::sys::getHostCPUName().str()};
}

#endif

// Keeps LLVM from exiting at an error, and stores the first one.
struct Errors : llvm::DiagnosticHandler {
  explicit Errors(std::string& first) : first_(first) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error && first_.empty()) {
      llvm::raw_string_ostream stream(first_);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    return true;
  }

 private:
  std::string& first_;
};

// Disables a pass that splits multiply-and-add instructions (vpdpwssd) to shorten chains, at the cost of twice the
// instructions: filters of u8, which have plenty of independent sums, ran 11 % slower. Otherwise the pass only reorders
// sums of integers.
void keep_sums_of_products() {
  const auto& options = llvm::cl::getRegisteredOptions();
  if (const auto found = options.find("x86-machine-combiner"); found != options.end()) {
    found->second->addOccurrence(0, found->first(), "false");
  }
}

// The passes that pay on code that is vectorised already: common values, constants, addresses, invariants. Value
// numbering (GVN) and a second InstCombine shorten kernels with stages: layer_norm by a fifth of its instructions,
// softmax by a twentieth; layer_norm, gaussian_blur and resize ran 2 to 4 % faster. Their share of the 7 ms that
// compiling an element-wise kernel takes is too small to measure.
void clean_up(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::InstCombinePass());
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) passes.run(function, functions);
  }
}

}  // namespace

HostTarget::HostTarget(const Host& host) : host_(host) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  keep_sums_of_products();
  triple_ = llvm::sys::getProcessTriple();
  const Instructions instructions = instructions_of(host);
  cpu_ = instructions.cpu;
  features_ = instructions.features;
  tuned_for_ = instructions.tuned_for;

  std::string error;
  target_ = llvm::TargetRegistry::lookupTarget(triple_, error);
  if (!target_) throw Error(Errc::internal, "LLVM cannot compile for this machine: " + error);
  std::unique_ptr<llvm::TargetMachine> machine = take_machine();
  data_layout_ = machine->createDataLayout().getStringRepresentation();
  give_back(std::move(machine));
  description_ = core::text(cpu_, ' ', host.vector_bits, "-bit vectors, ", features_, ", LLVM ", LLVM_VERSION_STRING);
}

HostTarget::~HostTarget() = default;

void HostTarget::prepare(llvm::Module& module) const {
  module.setTargetTriple(triple_);
  module.setDataLayout(data_layout_);
  module.setPICLevel(llvm::PICLevel::SmallPIC);
}

std::unique_ptr<llvm::TargetMachine> HostTarget::take_machine() const {
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<llvm::TargetMachine> machine = std::move(idle_.back());
      idle_.pop_back();
      return machine;
    }
  }
  std::unique_ptr<llvm::TargetMachine> machine(
      target_->createTargetMachine(triple_, cpu_, features_, llvm::TargetOptions(), llvm::Reloc::PIC_,
                                   llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/false));
  if (!machine) throw Error(Errc::internal, "LLVM cannot compile for " + cpu_);
  return machine;
}

void HostTarget::give_back(std::unique_ptr<llvm::TargetMachine> machine) const {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(machine));
}

llvm::SmallVector<char, 0> HostTarget::emit(llvm::Module& module, llvm::CodeGenFileType type) const {
  std::string error;
  llvm::raw_string_ostream wrong(error);
  if (llvm::verifyModule(module, &wrong)) throw Error(Errc::internal, "invalid LLVM module: " + error);

  const std::string width = std::to_string(host_.vector_bits);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", cpu_);
    function.addFnAttr("target-features", features_);
    if (!tuned_for_.empty()) function.addFnAttr("tune-cpu", tuned_for_);
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  prepare(module);
  module.getContext().setDiagnosticHandler(std::make_unique<Errors>(error));

  std::unique_ptr<llvm::TargetMachine> machine = take_machine();
  clean_up(module, *machine);
  llvm::SmallVector<char, 0> output;
  llvm::raw_svector_ostream stream(output);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true)) {
    throw Error(Errc::internal, "LLVM cannot write object code for " + cpu_);
  }
  passes.run(module);
  give_back(std::move(machine));
  module.getContext().setDiagnosticHandler(nullptr);
  if (!error.empty()) throw Error(Errc::internal, "LLVM: " + error);
  return output;
}

std::vector<std::byte> HostTarget::compile(std::unique_ptr<llvm::Module> module) const {
  const llvm::SmallVector<char, 0> object = emit(*module, llvm::CodeGenFileType::ObjectFile);
  const auto* begin = reinterpret_cast<const std::byte*>(object.data());
  return {begin, begin + object.size()};
}

std::string HostTarget::assembly(std::unique_ptr<llvm::Module> module) const {
  const llvm::SmallVector<char, 0> text = emit(*module, llvm::CodeGenFileType::AssemblyFile);
  return {text.begin(), text.end()};
}

}  // namespace tessera::compile::cpu
