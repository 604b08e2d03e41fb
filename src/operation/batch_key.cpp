#include "operation/batch_key.hpp"

#include <tessera/params.hpp>
#include <tessera/shape.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

namespace tessera::detail::operation {

namespace {

// Overwrites a key in place: each of its words costs one store.
class KeyWriter {
 public:
  explicit KeyWriter(BatchKey& key) : key_(key) { key_.resize(key_.capacity()); }
  ~KeyWriter() { key_.resize(size_); }
  KeyWriter(const KeyWriter&) = delete;
  KeyWriter& operator=(const KeyWriter&) = delete;

  void add(std::uint64_t number) {
    if (size_ == key_.size()) grow();
    key_[size_++] = number;
  }
  void add(std::string_view characters) {
    add(characters.size());
    for (; !characters.empty(); characters.remove_prefix(std::min(characters.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, characters.data(), std::min(characters.size(), sizeof word));
      add(word);
    }
  }
  void add(const Shape& shape) {
    add(static_cast<std::uint64_t>(shape.rank()));
    for (const std::int64_t extent : shape) add(static_cast<std::uint64_t>(extent));
  }
  void add(const Value& value) {
    if (value.is_integer()) {
      add(1);
      add(static_cast<std::uint64_t>(value.integer()));
    } else if (value.is_number()) {
      add(2);
      add(std::bit_cast<std::uint64_t>(value.number()));  // tells -0 from 0
    } else if (value.is_bool()) {
      add(value.boolean() ? 3 : 4);
    } else if (value.is_list()) {
      add(5);
      add(value.items().size());
      for (const Value& item : value.items()) add(item);
    } else {
      add(6);
      add(std::string_view(to_string(value)));
    }
  }

 private:
  [[gnu::noinline]] void grow() { key_.resize(std::max<std::size_t>(64, 2 * size_)); }

  BatchKey& key_;
  std::size_t size_ = 0;
};

// Writes the calls with their operands; `add_params` writes the parameters of one call.
template <class AddParams>
void write_calls(const CallBatch& batch, KeyWriter& key, AddParams&& add_params) {
  constexpr std::uint64_t first_use = std::uint64_t{1} << 62, other_shape = std::uint64_t{1} << 63;
  std::size_t known = 0;  // operands are numbered in the order of their first use
  for (const RecordedCall& call : batch.calls()) {
    if (!call.kernel) continue;
    key.add(call.kernel->number | call.uses.size() << 32U | call.tile.size() << 56U);
    for (const OperandUse& use : call.uses) {
      const Operand& operand = batch.operands[use.operand];
      const std::size_t number = batch.number_of(use.operand);
      const bool is_first = number == known;
      key.add(number | (is_first ? first_use : 0) | (use.reshaped ? other_shape : 0));
      if (is_first) {
        ++known;
        key.add(static_cast<std::uint64_t>(operand.dtype()) | (operand.buffer ? 0x100U : 0U));
        key.add(operand.shape());
      }
      if (use.reshaped) key.add(*use.reshaped);
    }
    add_params(call);
    for (const std::int64_t extent : call.tile) key.add(static_cast<std::uint64_t>(extent));
  }
}

}  // namespace

std::size_t BatchKeyHash::operator()(const BatchKey& key) const noexcept {
  // Two independent chains of multiplications, because keys are long.
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15;
  std::uint64_t even = key.size(), odd = 0;
  std::size_t i = 0;
  for (; i + 1 < key.size(); i += 2) {
    even = std::rotl((even ^ key[i]) * factor, 29);
    odd = std::rotl((odd ^ key[i + 1]) * factor, 31);
  }
  if (i < key.size()) even = std::rotl((even ^ key[i]) * factor, 29);
  return (even ^ std::rotl(odd, 32)) * factor;
}

void write_exact_key(const CallBatch& batch, BatchKey& words) {
  KeyWriter key(words);
  write_calls(batch, key, [&](const RecordedCall& call) {
    key.add(call.params.size());
    for (const Param& param : call.params) {
      key.add(std::string_view(param.name));
      key.add(param.value);
    }
  });
}

void write_form_key(const CallBatch& batch, std::span<const kernels::Lowering> kernel_plans, BatchKey& words) {
  constexpr std::uint64_t is_form = ~std::uint64_t{0};  // no exact key begins with it
  KeyWriter key(words);
  key.add(is_form);
  write_calls(batch, key, [&, plan = kernel_plans.begin()](const RecordedCall&) mutable {
    key.add(std::string_view(plan->variant));
    key.add(plan->scalars.size());
    key.add(plan->shapes.size());
    for (const Shape& shape : plan->shapes) key.add(shape);
    key.add(plan->fixed.size());
    for (const auto& [buffer, axis] : plan->fixed) {
      key.add(static_cast<std::uint64_t>(buffer));
      key.add(static_cast<std::uint64_t>(axis));
    }
    key.add(plan->is_pointwise ? 1 : 0);
    ++plan;
  });
}

}  // namespace tessera::detail::operation
