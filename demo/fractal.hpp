#pragma once

#include <tessera/tessera.hpp>

#include <functional>
#include <vector>

// What the demo computes: the Mandelbrot set, once with Tessera's elementwise kernels and once with a plain loop.
namespace demo {

inline constexpr int width = 960;
inline constexpr int strip_height = 45;  // so that a command moves less than 512 KiB and is the work of one thread
inline constexpr int strips = 12;
inline constexpr int height = strips * strip_height;
inline constexpr int iterations = 48;

// Where the middle of a pixel lies in the plane.
float plane_x(int column);
float plane_y(int row);

// One strip of the picture, and the commands that compute it.
class Strip {
 public:
  static constexpr std::size_t commands_per_iteration = 17;
  using Submit = std::function<void(std::string_view kernel, const tessera::BufferList& inputs,
                                    const tessera::Buffer& output, const tessera::Params& params)>;

  // minus_four: a buffer of that value, shared by all strips.
  Strip(const tessera::Device& device, int index, const tessera::Buffer& minus_four);

  // One step of z = z * z + c for every pixel, counting those that have not escaped.
  void iterate(const Submit& submit) const;
  // For every pixel, how many iterations it took to escape.
  const tessera::Buffer& counts() const { return counts_; }

 private:
  tessera::Buffer minus_four_;
  tessera::Buffer c_real_, c_imaginary_, real_, imaginary_;
  tessera::Buffer alive_;  // 1, or 0 from the escape on
  tessera::Buffer counts_;
  tessera::Buffer real_squared_, imaginary_squared_, excess_;
};

// The same by a loop over the pixels.
std::vector<float> sequential_counts();

}  // namespace demo
