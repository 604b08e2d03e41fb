#include "compile/cpu/llvm/emitter.hpp"

#include <algorithm>
#include <llvm/Analysis/VectorUtils.h>

namespace tessera::compile::cpu {

using ir::Code;
using ir::Id;
using llvm::Value;

namespace {

constexpr std::int64_t most_channels = 4;
constexpr unsigned lane_bytes = 16;                  // byte shuffles work within so many bytes
constexpr unsigned word_bytes = 4, pixel_bytes = 3;  // of a pixel of three bytes, as a word and in memory

}  // namespace

// The number of channels, if the last axis of the output is too short for a vector: then lanes are neighbouring pixels,
// and each channel is a vector of its own. Conditions on the channel's number are decided when the code is emitted, and
// what does not depend on the channel is computed once a pixel. 0: the output has another form, or its inputs are not
// read as simply.
int Emitter::channels_of_pixels() const {
  const ir::Buffer& output = program_.buffers[0];
  const std::int64_t channels = output.rank() < 2 ? -1 : output.dims.back();
  if (channels < 1 || channels > most_channels || channels >= natural_lanes_ || tiling_.extents.back() != 0) return 0;
  const auto is_simple = [&](const ir::Op& op) {
    switch (op.code) {
      case Code::load:
        return !reads_by_lane(op);
      case Code::argument:
      case Code::broadcast:
      case Code::iota:
      case Code::result:
      case Code::store:
        return true;
      default:
        return op.shape.empty() || is_elementwise(op.code);
    }
  };
  for (std::size_t id = 0; id < program_.ops.size(); ++id) {
    if (analysis_.is_live[id] && !is_simple(program_.ops[id])) return 0;
  }
  return static_cast<int>(channels);
}

// Whether each lane reads at an index of its own, and the channels cannot be read together.
bool Emitter::reads_by_lane(const ir::Op& load) const {
  const std::span<const Id> indices = ir::indices_of(load);
  if (indices.empty()) return false;
  int moving = 0;
  bool are_coordinates = true, are_bounded = true;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (is_same_for_pixels(indices[axis])) continue;
    ++moving;
    are_coordinates &= is_coordinate(program_, indices[axis]);
    are_bounded &= load.border == ir::Border::clamp || is_inside(load, axis);
  }
  const bool is_of_pixel = std::all_of(indices.begin(), indices.end() - 1, [&](Id id) {
    std::int64_t extent = 0;
    const std::vector<Id>& shape = program_[id].shape;
    return shape.empty() || (ir::is_constant(program_, shape.back(), extent) && extent == 1);
  });
  const bool is_gathered = bytes_of_pixel(load) > 0 && is_of_pixel && are_bounded && is_same_for_pixels(indices.back());
  return !is_gathered && (moving > 1 || !are_coordinates);
}

bool Emitter::is_same_for_pixels(Id id) const {
  const std::vector<Id>& shape = program_[id].shape;
  std::int64_t extent = 0;
  return shape.size() < 2 || (ir::is_constant(program_, shape[shape.size() - 2], extent) && extent == 1);
}

// Three or four if the load reads pixels of that many bytes; otherwise 0.
unsigned Emitter::bytes_of_pixel(const ir::Op& load) const {
  if (load.code != Code::load || load.type != ir::Type::u8) return 0;
  const std::vector<std::int64_t>& dims = program_.buffers[static_cast<std::size_t>(load.index)].dims;
  const std::int64_t channels = dims.empty() ? 0 : dims.back();
  return channels == pixel_bytes || channels == word_bytes ? static_cast<unsigned>(channels) : 0;
}

// One channel of pixels at arbitrary indices: each pixel is read once, for all channels. Null if it has another form.
Value* Emitter::gathered_channel(Id id, const Point& point, const Source& source, std::span<const Lanes> indices) {
  const unsigned bytes = bytes_of_pixel(program_[id]);
  const auto* number =
      bytes != 0 && indices.back().is_uniform() ? llvm::dyn_cast<llvm::ConstantInt>(indices.back().base) : nullptr;
  if (!number || number->getValue().uge(bytes)) return nullptr;
  const Lanes pixels = offset_of(indices.first(indices.size() - 1), source.present);
  if (!pixels.is_vector) return nullptr;
  const auto gather = [&] { return gathered_words(source, pixels.base, bytes); };
  const bool has_channels = row_from_end_ == 2 && point.back().is_uniform();
  Value* words = has_channels ? once_for_channels(id, point, gather) : gather();
  words = b_.CreateLShr(words, llvm::ConstantInt::get(words->getType(), 8 * number->getZExtValue()));
  return b_.CreateTrunc(words, math_.like(b_.getInt8Ty(), words));
}

// For pixels along the lanes: what is the same for all channels is remembered without a channel.
Value* Emitter::once_for_channels(Id id, Point point, const std::function<Value*()>& compute) {
  point.back() = {};
  if (!is_known(id, {point})) known_insert(id, point, varying(compute()));
  return eval(id, point).base;
}

// Pixels of `bytes` bytes, each in a word.
Value* Emitter::gathered_words(const Source& source, Value* pixels, unsigned bytes) {
  llvm::Type* byte = b_.getInt8Ty();
  Value* offsets = b_.CreateMul(pixels, llvm::ConstantInt::get(pixels->getType(), bytes));
  const auto part = [&](llvm::Type* type, Value* offset, unsigned first) {
    Value* at = b_.CreateInBoundsGEP(byte, source.base, b_.CreateAdd(offset, i64(first)));
    return b_.CreateZExt(b_.CreateAlignedLoad(type, at, llvm::Align(1)), b_.getInt32Ty());
  };
  const auto word_at = [&](Value* offset) {
    if (bytes == word_bytes) return part(b_.getInt32Ty(), offset, 0);
    return b_.CreateOr(part(b_.getInt16Ty(), offset, 0), b_.CreateShl(part(byte, offset, 2), b_.getInt32(16)));
  };
  auto* of_words = math_.like(b_.getInt32Ty(), pixels);
  if (host_.level == VectorLevel::avx512) {
    Value* addresses = b_.CreateInBoundsGEP(byte, source.base, offsets);
    if (bytes == word_bytes) return b_.CreateMaskedGather(of_words, addresses, llvm::Align(1));
    // A word that begins at the last pixel would end beyond the buffer.
    Value* all = i64(1);
    for (Value* extent : source.present) all = b_.CreateMul(all, extent);
    Value* is_before = b_.CreateICmpSLE(offsets, vector(uniform(b_.CreateSub(all, i64(word_bytes)))));
    Value* last = vector(uniform(word_at(b_.CreateSub(all, i64(pixel_bytes)))));
    return b_.CreateMaskedGather(of_words, addresses, llvm::Align(1), is_before, last);
  }
  Value* words = llvm::PoisonValue::get(of_words);
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* offset = b_.CreateExtractElement(offsets, static_cast<std::uint64_t>(lane));
    words = b_.CreateInsertElement(words, word_at(offset), static_cast<std::uint64_t>(lane));
  }
  return words;
}

// Stores the channels of one pixel, or of as many pixels as there are lanes, one pixel after the other.
void Emitter::store_pixels(ir::Type type, const Lanes& first, std::span<const Lanes> channels) {
  llvm::Type* element = math_.memory_type(type);
  const llvm::Align align(element->getScalarSizeInBits() / 8);
  if (lanes_ == 1) {
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const Lanes at = add_indices(first, uniform(i64(static_cast<std::int64_t>(c))));
      store_at(buffers_[0], type, at, channels[c], false);
    }
    return;
  }
  llvm::SmallVector<Value*, most_channels> planes;
  for (const Lanes& channel : channels) planes.push_back(math_.to_memory(type, vector(channel)));
  Value* address = element_at(element, buffers_[0], first.base);
  const unsigned fit = host_.vector_bits / 32;
  const auto lanes = static_cast<unsigned>(lanes_);
  const bool are_bytes = element->isIntegerTy(8);
  if (!are_bytes || planes.size() == 1 || (planes.size() == pixel_bytes && lanes % fit != 0)) {
    Value* all = planes.size() == 1 ? planes[0] : llvm::concatenateVectors(b_, planes);
    if (planes.size() > 1) {
      all = b_.CreateShuffleVector(all, llvm::createInterleaveMask(lanes, static_cast<unsigned>(planes.size())));
    }
    b_.CreateAlignedStore(all, address, align);
    return;
  }
  // A pixel of bytes is one integer: shifts are quicker than shuffles.
  const unsigned bits = planes.size() == 2 ? 16 : 32;
  auto* of_words = llvm::FixedVectorType::get(b_.getIntNTy(bits), lanes);
  Value* words = llvm::Constant::getNullValue(of_words);
  for (std::size_t c = 0; c < planes.size(); ++c) {
    Value* word = b_.CreateZExt(planes[c], of_words);
    words = b_.CreateOr(words, b_.CreateShl(word, llvm::ConstantInt::get(of_words, 8 * c)));
  }
  if (planes.size() != pixel_bytes) {
    b_.CreateAlignedStore(words, address, align);
    return;
  }
  for (unsigned done = 0; done < lanes; done += fit) {
    Value* part = b_.CreateShuffleVector(words, llvm::createSequentialMask(done, fit, 0));
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), address, std::uint64_t{done} * pixel_bytes);
    b_.CreateAlignedStore(without_fourth_bytes(part), at, align);
  }
}

// Packs the lower three bytes of each word of a register: first within 128 bits, then by words.
Value* Emitter::without_fourth_bytes(Value* words) {
  const unsigned bytes = host_.vector_bits / 8, words_of_lane = lane_bytes / word_bytes;
  llvm::SmallVector<int, 64> closer;
  for (unsigned i = 0; i < bytes; ++i) {
    const unsigned at = i % lane_bytes, pixel = at / pixel_bytes;
    closer.push_back(pixel < words_of_lane
                         ? static_cast<int>(i / lane_bytes * lane_bytes + pixel * word_bytes + at % pixel_bytes)
                         : llvm::PoisonMaskElem);
  }
  auto* of_bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), bytes);
  Value* close = b_.CreateShuffleVector(b_.CreateBitCast(words, of_bytes), closer);
  llvm::SmallVector<int, 16> used;
  for (unsigned i = 0; i < bytes / word_bytes; ++i) {
    if (i % words_of_lane < pixel_bytes) used.push_back(static_cast<int>(i));
  }
  return b_.CreateShuffleVector(b_.CreateBitCast(close, words->getType()), used);
}

// Loads groups of three bytes as words whose fourth byte is 0. Null if the registers do not fit.
Value* Emitter::load_three_bytes(Value* address) {
  const unsigned bytes = host_.vector_bits / 8, fit = bytes / word_bytes, words_of_lane = lane_bytes / word_bytes;
  const auto lanes = static_cast<unsigned>(lanes_);
  if (lanes % fit != 0) return nullptr;
  llvm::SmallVector<int, 16> into_lanes;
  llvm::SmallVector<int, 64> apart;
  for (unsigned i = 0; i < fit; ++i) {
    const unsigned at = i % words_of_lane;
    into_lanes.push_back(at < pixel_bytes ? static_cast<int>(i / words_of_lane * pixel_bytes + at)
                                          : llvm::PoisonMaskElem);
  }
  for (unsigned i = 0; i < bytes; ++i) {
    const unsigned at = i % lane_bytes, which = at % word_bytes;
    apart.push_back(static_cast<int>(
        which < pixel_bytes ? i / lane_bytes * lane_bytes + at / word_bytes * pixel_bytes + which : bytes));
  }
  auto* of_bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), bytes);
  auto* of_words = llvm::FixedVectorType::get(b_.getInt32Ty(), fit);
  auto* of_memory = llvm::FixedVectorType::get(b_.getInt32Ty(), fit * pixel_bytes / word_bytes);
  llvm::SmallVector<Value*, 4> parts;
  for (unsigned done = 0; done < lanes; done += fit) {
    Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), address, std::uint64_t{done} * pixel_bytes);
    Value* in_lanes = b_.CreateShuffleVector(b_.CreateAlignedLoad(of_memory, at, llvm::Align(1)), into_lanes);
    Value* groups =
        b_.CreateShuffleVector(b_.CreateBitCast(in_lanes, of_bytes), llvm::Constant::getNullValue(of_bytes), apart);
    parts.push_back(b_.CreateBitCast(groups, of_words));
  }
  return llvm::concatenateVectors(b_, parts);
}

}  // namespace tessera::compile::cpu
