#include "conformance/cases/cases.hpp"

#include <array>

namespace tessera::conformance {

namespace {

void add_matmul(Cases& to) {
  const std::array<std::int64_t, 8> sizes = {0, 1, 2, 7, 17, 64, 65, 129};
  for (const DType dtype : all_dtypes) {
    for (const std::int64_t m : sizes) {
      for (const std::int64_t n : sizes) {
        for (const std::int64_t k : sizes) {
          // All of them for f32, of the others those that tell most.
          const std::int64_t most = std::max({m, n, k});
          if (dtype != f32 && most != m && most > 17) continue;
          to.push_back({"matmul", {{dtype, {m, k}}, {dtype, {k, n}}}, dtype, {m, n}});
        }
      }
    }
    to.push_back({"matmul", {{dtype, {17, 31}, Data::special}, {dtype, {31, 7}, Data::special}}, dtype, {17, 7}});
    to.push_back({"matmul", {{dtype, {65, 65}, Data::special}, {dtype, {65, 65}}}, dtype, {65, 65}});
    to.push_back({"matmul", {{dtype, {3, 5, 7}}, {dtype, {3, 7, 2}}}, dtype, {3, 5, 2}});
    to.push_back({"matmul", {{dtype, {3, 5, 7}}, {dtype, {7, 2}}}, dtype, {3, 5, 2}});
    to.push_back({"matmul", {{dtype, {5, 7}}, {dtype, {3, 7, 2}}}, dtype, {3, 5, 2}});
    to.push_back({"matmul", {{dtype, {1, 5, 7}}, {dtype, {3, 7, 2}}}, dtype, {3, 5, 2}});
    to.push_back({"matmul", {{dtype, {2, 1, 5, 7}}, {dtype, {3, 7, 2}}}, dtype, {2, 3, 5, 2}});
    to.push_back({"matmul", {{dtype, {2, 1, 17, 33}}, {dtype, {1, 3, 33, 18}}}, dtype, {2, 3, 17, 18}});
    to.push_back({"matmul", {{dtype, {2, 3, 2, 4, 5}}, {dtype, {2, 3, 2, 5, 6}}}, dtype, {2, 3, 2, 4, 6}});
    to.push_back({"matmul", {{dtype, {0, 5, 7}}, {dtype, {7, 2}}}, dtype, {0, 5, 2}});
  }
}

void add_transpose(Cases& to) {
  struct Permuted {
    Shape from;
    Shape to;
    Params params;
  };
  const std::vector<Permuted> all = {
      {{}, {}, {}},
      {{7}, {7}, {}},
      {{0, 3}, {3, 0}, {}},
      {{17, 31}, {31, 17}, {}},
      {{200, 201}, {201, 200}, {{"perm", {1, 0}}}},
      {{17, 31}, {17, 31}, {{"perm", {0, 1}}}},
      {{3, 5, 7}, {7, 5, 3}, {}},
      {{3, 5, 7}, {5, 3, 7}, {{"perm", {1, 0, 2}}}},
      {{3, 5, 7}, {7, 3, 5}, {{"perm", {2, 0, 1}}}},
      {{2, 3, 5, 7}, {2, 5, 3, 7}, {{"perm", {0, 2, 1, 3}}}},
      {{2, 3, 1, 7, 4}, {4, 1, 2, 7, 3}, {{"perm", {4, 2, 0, 3, 1}}}},
  };
  for (const DType dtype : all_dtypes) {
    for (const Permuted& permuted : all) {
      to.push_back({"transpose", {{dtype, permuted.from, Data::special}}, dtype, permuted.to, permuted.params});
    }
  }
}

struct Window {
  Shape x;
  Shape weights;  // of a pooling: unused
  Shape out;
  Params params;
};

void add_conv2d(Cases& to) {
  const std::vector<Window> all = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {{1, 1, 5, 7}, {1, 1, 3, 3}, {1, 1, 3, 5}, {}},
      {{2, 3, 17, 31}, {4, 3, 3, 3}, {2, 4, 17, 31}, {{"padding", 1}}},
      {{2, 3, 17, 31}, {4, 3, 3, 5}, {2, 4, 9, 16}, {{"padding", {1, 2}}, {"stride", 2}}},
      {{1, 4, 9, 11}, {6, 2, 3, 3}, {1, 6, 7, 9}, {{"groups", 2}}},
      {{1, 5, 9, 11}, {5, 1, 3, 3}, {1, 5, 9, 11}, {{"groups", 5}, {"padding", 1}}},
      {{1, 2, 13, 15}, {3, 2, 3, 3}, {1, 3, 9, 11}, {{"dilation", 2}}},
      {{1, 2, 13, 15}, {3, 2, 2, 3}, {1, 3, 4, 9}, {{"dilation", {1, 3}}, {"stride", {3, 1}}, {"padding", 0}}},
      {{1, 2, 3, 3}, {3, 2, 5, 5}, {1, 3, 3, 3}, {{"padding", 2}}},
      {{1, 16, 33, 35}, {17, 16, 1, 1}, {1, 17, 33, 35}, {}},
      {{1, 16, 20, 21}, {19, 16, 3, 3}, {1, 19, 20, 21}, {{"padding", 1}}},
      {{0, 3, 7, 7}, {4, 3, 3, 3}, {0, 4, 5, 5}, {}},
      {{1, 0, 7, 7}, {4, 0, 3, 3}, {1, 4, 5, 5}, {}},
  };
  for (const DType dtype : all_dtypes) {
    for (const Data data : {Data::usual, Data::special}) {
      for (const Window& window : all) {
        const std::vector<Input> inputs = {{dtype, window.x, data}, {dtype, window.weights}};
        to.push_back({"conv2d", inputs, dtype, window.out, window.params});
        std::vector<Input> with_bias = inputs;
        with_bias.push_back({dtype, Shape{window.weights[0]}});
        to.push_back({"conv2d", with_bias, dtype, window.out, window.params});
      }
    }
  }
}

void add_pooling(Cases& to) {
  const std::vector<Window> all = {
      {{1, 1, 2, 2}, {}, {1, 1, 1, 1}, {}},
      {{2, 3, 17, 31}, {}, {2, 3, 8, 15}, {}},
      {{2, 3, 17, 31}, {}, {2, 3, 5, 10}, {{"kernel", 3}}},
      {{2, 3, 17, 31}, {}, {2, 3, 15, 29}, {{"kernel", 3}, {"stride", 1}}},
      {{2, 3, 17, 31}, {}, {2, 3, 9, 16}, {{"kernel", 3}, {"stride", 2}, {"padding", 1}}},
      {{1, 2, 9, 8}, {}, {1, 2, 8, 4}, {{"kernel", {4, 3}}, {"stride", {1, 2}}, {"padding", {1, 1}}}},
      {{1, 1, 3, 3}, {}, {1, 1, 3, 3}, {{"kernel", 5}, {"stride", 1}, {"padding", 2}}},
      {{1, 2, 4, 5}, {}, {1, 2, 8, 3}, {{"kernel", {7, 3}}, {"stride", {1, 2}}, {"padding", {5, 1}}}},
      {{1, 2, 64, 67}, {}, {1, 2, 64, 67}, {{"kernel", 1}}},
      {{0, 3, 8, 8}, {}, {0, 3, 4, 4}, {}},
  };
  for (const DType dtype : all_dtypes) {
    for (const Data data : {Data::usual, Data::special}) {
      for (const Window& window : all) {
        to.push_back({"max_pool2d", {{dtype, window.x, data}}, dtype, window.out, window.params});
        to.push_back({"avg_pool2d", {{dtype, window.x, data}}, dtype, window.out, window.params});
        Params with_padding = window.params;
        with_padding.set("count_include_pad", true);
        to.push_back({"avg_pool2d", {{dtype, window.x, data}}, dtype, window.out, with_padding});
      }
    }
  }
}

}  // namespace

void add_linear_cases(Cases& to) {
  add_matmul(to);
  add_transpose(to);
  add_conv2d(to);
  add_pooling(to);
}

void add_generator_cases(Cases& to) {
  const std::vector<Shape> shapes = {{}, {0}, {1}, {7}, {2, 3, 5}, {40'001}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : all_dtypes) {
      for (const Params& params : std::vector<Params>{{},
                                                      {{"start", 5}, {"step", -2}},
                                                      {{"start", 0.25}, {"step", 0.1}},
                                                      {{"step", 0}},
                                                      {{"start", INT32_MAX - 40'000}},
                                                      {{"start", INT64_MAX}, {"step", 3}},
                                                      {{"start", -1e9}, {"step", 1.5}}}) {
        to.push_back({"arange", {}, dtype, shape, params});
      }
    }
    for (const DType dtype : {f32, f64}) {
      for (const Params& params : std::vector<Params>{
               {}, {{"seed", 1}}, {{"seed", -1}, {"min", -3}, {"max", 5}}, {{"seed", INT64_MAX}, {"max", 1e3}}}) {
        to.push_back({"uniform", {}, dtype, shape, params});
      }
      for (const Params& params :
           std::vector<Params>{{}, {{"seed", 1}}, {{"seed", -1}, {"mean", -3}, {"std", 5}}, {{"std", 0}}}) {
        to.push_back({"randn", {}, dtype, shape, params});
      }
    }
  }
  for (const Shape& shape :
       {Shape{1, 1, 4}, Shape{1, 9, 4}, Shape{9, 1, 4}, Shape{17, 31, 4}, Shape{64, 300, 4}, Shape{0, 5, 4}}) {
    for (const double phase : {0.0, 0.3, 1.75, -0.25}) {
      to.push_back({"generate_gradient", {}, u8, shape, {{"phase", phase}}});
    }
  }
}

}  // namespace tessera::conformance
