#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace tessera::core {

// A vector of trivially copyable values, the first N of which need no allocation.
template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T>
class InlineVector {
 public:
  // Leaves inline_ uninitialised: setting it would be a tenth of the cost of a small command.
  InlineVector() noexcept {}  // NOLINT(modernize-use-equals-default)

  void push_back(T value) {
    if (size_ < N) {
      inline_[size_] = value;
    } else {
      if (size_ == N) more_.assign(inline_, inline_ + N);
      more_.push_back(value);
    }
    ++size_;
  }
  void assign(const T* values, std::size_t count) {
    if (count == 1) {  // most often; calling memmove would be 3 % of a small command
      inline_[0] = values[0];
    } else if (count <= N) {
      std::copy_n(values, count, inline_);
    } else {
      more_.assign(values, values + count);
    }
    size_ = count;
  }
  // Makes room for this many: the next push_back() up to there cannot fail.
  void reserve(std::size_t count) {
    if (count > N && count > more_.capacity()) more_.reserve(std::max(count, 2 * more_.capacity()));
  }
  // Keeps the capacity.
  void clear() noexcept { size_ = 0; }
  void shrink(std::size_t size) noexcept {
    if (size_ > N && size <= N) {
      for (std::size_t i = 0; i < size; ++i) inline_[i] = more_[i];
    } else if (size > N) {
      more_.resize(size);
    }
    size_ = size;
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return size_ <= N ? inline_ : more_.data(); }
  const T* data() const noexcept { return size_ <= N ? inline_ : more_.data(); }
  T& operator[](std::size_t index) noexcept { return data()[index]; }
  const T& operator[](std::size_t index) const noexcept { return data()[index]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }

 private:
  std::size_t size_ = 0;
  union {
    T inline_[N];
  };
  std::vector<T> more_;
};

}  // namespace tessera::core
