// Stand-ins for libraries that were not found: the linker uses these only if there is no other definition.
#include "rivals/rivals.hpp"

namespace bench {

namespace openmp {
[[gnu::weak]] Call add_relu_scale(const AddReluScale&) { return {}; }
[[gnu::weak]] Call matmul(const Matmul<std::int32_t>&) { return {}; }
[[gnu::weak]] Call sum_of_all(const SumOfAll&) { return {}; }
}  // namespace openmp

namespace eigen {
[[gnu::weak]] Call add_relu_scale(const AddReluScale&) { return {}; }
[[gnu::weak]] Call matmul(const Matmul<std::int32_t>&) { return {}; }
[[gnu::weak]] Call softmax(const Rows&) { return {}; }
[[gnu::weak]] Call row_sums(const Rows&) { return {}; }
[[gnu::weak]] Call sum_of_all(const SumOfAll&) { return {}; }
}  // namespace eigen

namespace onednn {
[[gnu::weak]] Call matmul(const Matmul<float>&) { return {}; }
[[gnu::weak]] Call sgemm(const Matmul<float>&) { return {}; }
[[gnu::weak]] Call softmax(const Rows&) { return {}; }
[[gnu::weak]] Call row_sums(const Rows&) { return {}; }
}  // namespace onednn

namespace openblas {
[[gnu::weak]] Call matmul(const Matmul<double>&) { return {}; }
}  // namespace openblas

namespace opencv {
[[gnu::weak]] Call add_relu_scale(const AddReluScale&) { return {}; }
[[gnu::weak]] Call gaussian_blur(const Blur&) { return {}; }
[[gnu::weak]] Call blur_sharpen_gray(const Blur&) { return {}; }
[[gnu::weak]] Call resize(const Resize&) { return {}; }
[[gnu::weak]] Call look_up(const Pixels&, const std::uint8_t*) { return {}; }
[[gnu::weak]] Call saturate(const Pixels&, float) { return {}; }
}  // namespace opencv

}  // namespace bench
