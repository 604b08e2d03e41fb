#include "rivals/rivals.hpp"

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace bench::opencv {

namespace {

// OpenCV takes non-const inputs, but does not write them.
cv::Mat mat(int height, int width, int type, const void* data) {
  return {height, width, type, const_cast<void*>(data)};
}

}  // namespace

// Three passes over memory, as a user of OpenCV would write it.
Call add_relu_scale(const AddReluScale& work) {
  cv::setNumThreads(rival_threads);
  constexpr int width = 1024;
  const int height = static_cast<int>(work.elements / width);
  return [a = mat(height, width, CV_32F, work.a), b = mat(height, width, CV_32F, work.b),
          output = mat(height, width, CV_32F, work.output), factor = work.factor]() mutable {
    cv::add(a, b, output);
    cv::max(output, 0, output);
    cv::multiply(output, factor, output);
  };
}

Call gaussian_blur(const Blur& work) {
  cv::setNumThreads(rival_threads);
  const int across = 2 * work.radius + 1;
  return [=, input = mat(work.height, work.width, CV_8UC4, work.input),
          output = mat(work.height, work.width, CV_8UC4, work.output)]() mutable {
    cv::GaussianBlur(input, output, {across, across}, work.sigma, work.sigma, cv::BORDER_REPLICATE);
  };
}

// As a user of OpenCV would write it: intermediate results are reused between calls.
Call blur_sharpen_gray(const Blur& work) {
  cv::setNumThreads(rival_threads);
  const int across = 2 * work.radius + 1;
  constexpr double amount = 0.5;
  return [=, input = mat(work.height, work.width, CV_8UC4, work.input),
          output = mat(work.height, work.width, CV_8UC1, work.output), blurred = cv::Mat(), softer = cv::Mat(),
          sharp = cv::Mat()]() mutable {
    cv::GaussianBlur(input, blurred, {across, across}, work.sigma, work.sigma, cv::BORDER_REPLICATE);
    cv::GaussianBlur(blurred, softer, {3, 3}, 1, 1, cv::BORDER_REPLICATE);
    cv::addWeighted(blurred, 1 + amount, softer, -amount, 0, sharp);
    cv::cvtColor(sharp, output, cv::COLOR_RGBA2GRAY);
  };
}

Call resize(const Resize& work) {
  cv::setNumThreads(rival_threads);
  return [input = mat(work.height, work.width, CV_8UC4, work.input),
          output = mat(work.output_height, work.output_width, CV_8UC4, work.output)]() mutable {
    cv::resize(input, output, output.size(), 0, 0, cv::INTER_LINEAR);
  };
}

Call look_up(const Pixels& work, const std::uint8_t* table) {
  cv::setNumThreads(rival_threads);
  return [input = mat(work.height, work.width, CV_8UC3, work.input),
          output = mat(work.height, work.width, CV_8UC3, work.output),
          table = mat(1, 256, CV_8UC1, table)]() mutable { cv::LUT(input, table, output); };
}

// As a matrix: gray + (x - gray) * amount.
Call saturate(const Pixels& work, float amount) {
  cv::setNumThreads(rival_threads);
  const cv::Matx<float, 1, 3> gray(0.299F, 0.587F, 0.114F);
  cv::Matx<float, 3, 3> matrix = cv::Matx<float, 3, 3>::eye() * amount;
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 3; ++column) matrix(row, column) += gray(0, column) * (1 - amount);
  }
  return
      [=, input = mat(work.height, work.width, CV_8UC3, work.input),
       output = mat(work.height, work.width, CV_8UC3, work.output)]() mutable { cv::transform(input, output, matrix); };
}

}  // namespace bench::opencv
