#include "rivals/rivals.hpp"

#include <dnnl.hpp>

namespace bench::onednn {

namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// oneDNN takes non-const inputs, but does not write them.
dnnl::memory memory(const dnnl::memory::desc& description, const float* data) {
  return {description, engine(), const_cast<float*>(data)};
}

dnnl::memory::desc matrix(int rows, int columns) { return {{rows, columns}, Type::f32, Tag::ab}; }

Call call(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments) {
  return [=, stream = dnnl::stream(engine())]() mutable {
    primitive.execute(stream, arguments);
    stream.wait();
  };
}

}  // namespace

Call matmul(const Matmul<float>& work) {
  const auto square = matrix(work.size, work.size);
  const dnnl::matmul::primitive_desc description({square, square, square}, engine());
  return call(dnnl::matmul(description), {{DNNL_ARG_SRC, memory(square, work.a)},
                                          {DNNL_ARG_WEIGHTS, memory(square, work.b)},
                                          {DNNL_ARG_DST, memory(square, work.c)}});
}

Call sgemm(const Matmul<float>& work) {
  return [work] {
    const int n = work.size;
    dnnl_sgemm('N', 'N', n, n, n, 1.0F, work.a, n, work.b, n, 0.0F, work.c, n);
  };
}

Call softmax(const Rows& work) {
  const auto shape = matrix(work.rows, work.columns);
  const dnnl::softmax_forward::primitive_desc description({dnnl::prop_kind::forward_inference, shape, 1}, engine());
  return call(dnnl::softmax_forward(description),
              {{DNNL_ARG_SRC, memory(shape, work.input)}, {DNNL_ARG_DST, memory(shape, work.output)}});
}

Call row_sums(const Rows& work) {
  const auto from = matrix(work.rows, work.columns);
  const auto to = matrix(work.rows, 1);
  const dnnl::reduction::primitive_desc description({dnnl::algorithm::reduction_sum, from, to, 0, 0}, engine());
  return call(dnnl::reduction(description),
              {{DNNL_ARG_SRC, memory(from, work.input)}, {DNNL_ARG_DST, memory(to, work.output)}});
}

}  // namespace bench::onednn
