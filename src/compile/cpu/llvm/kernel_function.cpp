// The functions of a kernel: their parameters, and the loop over tiles.
#include "compile/cpu/llvm/emitter.hpp"
#include "compile/cpu/llvm/scope.hpp"

#include <algorithm>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

bool is_constant_one(const Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->isOne();
}

}  // namespace

Emitter::Emitter(llvm::Module& module, const ir::Program& program, const Tiling& tiling, const Host& host)
    : module_(module),
      context_(module.getContext()),
      program_(program),
      tiling_(tiling),
      host_(host),
      analysis_(program, tiling, multiplies_bytes(), host.has_vbmi),
      b_(context_, llvm::TargetFolder(module.getDataLayout())),
      math_(b_, module, host) {
  use_lanes(analysis_.lane_bits, ir::bits_of(program_.buffers[0].type));
}

// Stages with narrower elements have more lanes. Values may be stored, or multiplied, in fewer bits than they are
// computed in.
void Emitter::use_lanes(int bits, int narrowest) {
  natural_lanes_ = std::max(1, static_cast<int>(host_.vector_bits) / bits);
  // u8 computed in more bits: two vectors at a time, which become one again when they are stored.
  are_lanes_doubled_ = narrowest == 8 && (bits == 16 || bits == 32);
  if (are_lanes_doubled_) natural_lanes_ *= 2;
  // A gather is emitted lane by lane: a table lookup for 64 bytes took 34 ms to compile, and ran no faster.
  constexpr int most_gathered = 16;
  if (analysis_.has_gather && natural_lanes_ > most_gathered) {
    natural_lanes_ = most_gathered;
    are_lanes_doubled_ = false;
  }
}

// Non-temporal stores need whole aligned vectors, and only pay in loops that are bound by memory.
bool Emitter::can_stream() const {
  constexpr int smallest_vector = 16;
  constexpr int largest_cost = 64;
  const int bytes = natural_lanes_ * ir::bits_of(program_.buffers[0].type) / 8;
  return bytes >= smallest_vector && analysis_.cost <= largest_cost && !has_stages() && program_.regions.size() == 1 &&
         program_.buffers[0].rank() > 0 && channels_of_pixels() == 0;
}

void Emitter::emit(Form form) {
  if (form == Form::streaming) {
    emit_kernel("kernel_streaming", true);
    return;
  }
  emit_scratch_function();
  emit_kernel("kernel", false);
  if (can_stream()) llvm::GlobalAlias::create("kernel_can_stream", function_);
}

void Emitter::begin_function(llvm::Function* function) {
  function_ = function;
  buffers_.clear();
  dims_.clear();
  scratch_of_.clear();
  origins_.clear();
  blocks_.clear();
  tile_dims_.clear();
  next_origins_.clear();
  first_loads_.clear();
  known_.clear();
  known_.emplace_back();
  safe_loads_.clear();
  safe_indices_.clear();
  prefetches_.clear();
  lanes_ = 1;
  function->addFnAttr(llvm::Attribute::NoUnwind);
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function));
}

void Emitter::load_dims(Value* dims) {
  std::uint64_t next = 0;
  for (const ir::Buffer& buffer : program_.buffers) {
    dims_.emplace_back();
    for (std::int64_t known : buffer.dims) {
      Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), dims, next++);
      dims_.back().push_back(known >= 0 ? i64(known) : b_.CreateLoad(b_.getInt64Ty(), address));
    }
  }
}

std::vector<Value*> Emitter::extents_of(Id id) {
  std::vector<Value*> extents;
  for (Id extent : program_[id].shape) extents.push_back(this->extent(extent));
  return extents;
}

Value* Emitter::extent(Id id) {
  Value* number = scalar(id);
  if (!ir::may_be_negative(program_, id)) return number;
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, number, i64(0));
}

void Emitter::for_each(Value* begin, Value* end, std::int64_t step, const std::function<void(Value*)>& body) {
  if (step == 1 && is_constant_one(end) && begin == i64(0)) {
    const Scope scope(known_);
    body(begin);
    return;
  }
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "each", function_);
  auto* inside = llvm::BasicBlock::Create(context_, "each.body", function_);
  auto* after = llvm::BasicBlock::Create(context_, "each.end", function_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt64Ty(), 2);
  at->addIncoming(begin, before);
  b_.CreateCondBr(b_.CreateICmpSLT(at, end), inside, after);
  b_.SetInsertPoint(inside);
  {
    const Scope scope(known_);
    body(at);
  }
  at->addIncoming(b_.CreateAdd(at, i64(step)), b_.GetInsertBlock());
  b_.CreateBr(head);
  b_.SetInsertPoint(after);
}

void Emitter::emit_kernel(const char* name, bool streaming) {
  llvm::Type* pointer = b_.getPtrTy();
  llvm::Type* number = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, pointer, number, number}, false);
  begin_function(llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_));
  streaming_ = streaming;
  for (unsigned argument = 0; argument < 4; ++argument) function_->addParamAttr(argument, llvm::Attribute::NoAlias);
  for (std::size_t buffer = 0; buffer < program_.buffers.size(); ++buffer) {
    buffers_.push_back(b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, function_->getArg(0), buffer)));
  }
  load_dims(function_->getArg(1));
  scalars_ = function_->getArg(2);
  scratch_ = function_->getArg(3);
  for_each(function_->getArg(4), function_->getArg(5), 1, [&](Value* tile) { emit_tile(tile); });
  // Non-temporal stores must be visible before the work is reported as finished.
  if (streaming) b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  b_.CreateRetVoid();
}

void Emitter::emit_tile(Value* number) {
  const std::size_t rank = tiling_.extents.size();
  origins_.assign(rank, i64(0));
  blocks_.assign(rank, i64(0));
  tile_dims_.assign(rank, i64(1));
  next_origins_.assign(rank, i64(0));
  std::size_t first_cut = 0;
  while (first_cut < rank && tiling_.extents[first_cut] == 0) ++first_cut;
  Value* next = b_.CreateAdd(number, i64(1));
  for (std::size_t axis = rank; axis-- > 0;) {
    const std::int64_t extent = tiling_.extents[axis];
    Value* whole = dim(0, static_cast<int>(axis));
    if (extent == 0) {
      tile_dims_[axis] = whole;
      continue;
    }
    blocks_[axis] = number;
    Value* next_block = next;
    if (axis > first_cut) {
      Value* count = b_.CreateUDiv(b_.CreateAdd(whole, i64(extent - 1)), i64(extent));
      blocks_[axis] = b_.CreateURem(number, count);
      number = b_.CreateUDiv(number, count);
      next_block = b_.CreateURem(next, count);
      next = b_.CreateUDiv(next, count);
    }
    next_origins_[axis] = b_.CreateMul(next_block, i64(extent));
    origins_[axis] = b_.CreateMul(blocks_[axis], i64(extent));
    tile_dims_[axis] = i64(extent);
    if (analysis_.is_clipped[axis] && extent > 1) {
      tile_dims_[axis] =
          b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(whole, origins_[axis]), i64(extent));
    }
  }
  // Scalars are loaded here: inside the loops LLVM could not move the loads before stores.
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (analysis_.is_live[id] && program_.ops[id].code == Code::scalar) scalar(static_cast<Id>(id));
  }
  allocate_scratch();
  emit_region(0);
  emit_store();
}

}  // namespace tessera::compile::cpu
