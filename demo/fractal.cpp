#include "fractal.hpp"

namespace demo {

using tessera::Buffer;

float plane_x(int column) { return -2.6F + 4.0F * (static_cast<float>(column) + 0.5F) / width; }
float plane_y(int row) { return -1.125F + 2.25F * (static_cast<float>(row) + 0.5F) / height; }

Strip::Strip(const tessera::Device& device, int index, const Buffer& minus_four) : minus_four_(minus_four) {
  std::vector<float> x, y;
  for (int row = index * strip_height; row < (index + 1) * strip_height; ++row) {
    for (int column = 0; column < width; ++column) {
      x.push_back(plane_x(column));
      y.push_back(plane_y(row));
    }
  }
  const tessera::Shape shape = {strip_height, width};
  c_real_ = device.buffer<float>(x, shape);
  c_imaginary_ = device.buffer<float>(y, shape);
  real_ = device.zeros(shape);
  imaginary_ = device.zeros(shape);
  alive_ = device.buffer<float>(std::vector<float>(x.size(), 1.0F), shape);
  counts_ = device.zeros(shape);
  real_squared_ = device.empty(shape);
  imaginary_squared_ = device.empty(shape);
  excess_ = device.empty(shape);
}

// Who waits for whom is nowhere said: it follows from the buffers.
void Strip::iterate(const Submit& submit) const {
  submit("elementwise_mul", {real_, real_}, real_squared_, {});
  submit("elementwise_mul", {imaginary_, imaginary_}, imaginary_squared_, {});

  // A pixel lives while |z|² <= 4. What is above 4, times 2^22, is 0 or at least 2: it leaves alive or kills.
  submit("elementwise_add", {real_squared_, imaginary_squared_}, excess_, {});
  submit("elementwise_add", {excess_, minus_four_}, excess_, {});
  submit("relu", {excess_}, excess_, {});
  submit("scale", {excess_}, excess_, {{"factor", -4194304.0}});
  submit("elementwise_add", {alive_, excess_}, alive_, {});
  submit("relu", {alive_}, alive_, {});
  submit("elementwise_add", {counts_, alive_}, counts_, {});

  // z = z * z + c; an escaped one becomes 0, so that it cannot grow without end.
  submit("elementwise_mul", {real_, imaginary_}, imaginary_, {});
  submit("scale", {imaginary_}, imaginary_, {{"factor", 2}});
  submit("elementwise_add", {imaginary_, c_imaginary_}, imaginary_, {});
  submit("elementwise_mul", {imaginary_, alive_}, imaginary_, {});
  submit("scale", {imaginary_squared_}, imaginary_squared_, {{"factor", -1}});
  submit("elementwise_add", {real_squared_, imaginary_squared_}, real_, {});
  submit("elementwise_add", {real_, c_real_}, real_, {});
  submit("elementwise_mul", {real_, alive_}, real_, {});
}

std::vector<float> sequential_counts() {
  std::vector<float> counts;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      float real = 0, imaginary = 0, count = 0;
      for (int i = 0; i < iterations; ++i) {
        // One operation a statement: compilers may contract x * y + z within one, which rounds differently.
        const float real_squared = real * real;
        const float imaginary_squared = imaginary * imaginary;
        if (real_squared + imaginary_squared > 4) break;
        ++count;
        const float product = real * imaginary;
        const float doubled = product * 2;
        const float difference = real_squared - imaginary_squared;
        imaginary = doubled + plane_y(row);
        real = difference + plane_x(column);
      }
      counts.push_back(count);
    }
  }
  return counts;
}

}  // namespace demo
