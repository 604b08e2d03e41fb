#pragma once

#include "harness.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

// What is measured: each function sets up one case of the table in main.cpp.
namespace bench {

// scale is the harder one: it brings a parameter.
enum class Kernel : std::uint8_t { relu, scale };

// Whether commands can run when they are submitted, or wait for a mapped buffer until all of them are there.
enum class Ahead : std::uint8_t { nothing, map };

// ns a command; TBB: a task_group's tasks. The commands write so many buffers in turns.
Sides independent(Kernel kernel, std::size_t commands, std::size_t outputs, Ahead ahead = Ahead::nothing);
Sides chain(Kernel kernel, Ahead ahead = Ahead::nothing);  // ns a command; TBB: the stages of a prebuilt flow_graph

Sides run(Kernel kernel);       // ns; TBB: a task_group's run and wait
Sides submit_and_wait();        // ns; TBB: the same
Sides submit_and_wait_async();  // ns; std::async and get

Sides middling(unsigned threads);  // µs a command that moves 32 KiB; TBB: a task_group a thread
Sides large();                     // GB/s of 64 MiB; two threads with a half each, on the same memory

Sides wake();  // µs from submit until a worker that slept has run it; a futex and a thread that slept

// Kernels, beside the libraries whose names the table in main.cpp has, in its order. Arrays in the caches or in memory.
enum class Extent : std::uint8_t { cache, memory };
Sides add_relu_scale(std::size_t elements, Extent extent);  // GB/s
template <class T>
Sides matmul(int size);                  // GFLOP/s; float, double, std::int32_t
Sides softmax(int rows, int columns);    // GB/s
Sides row_sums(int rows, int columns);   // GB/s
Sides sum_of_all(std::size_t elements);  // GB/s
// Millions of pixels a second.
Sides gaussian_blur(int width, int height);
Sides resize(int width, int height, int output_width, int output_height);
Sides look_up(int width, int height);
Sides saturation(int width, int height);

// Pipelines, replayed. ns of ten stages over a cache line; TBB: a prebuilt flow_graph of ten empty nodes.
Sides tiny_pipeline(bool can_fuse);
Sides long_chain();                           // ms of ten element-wise stages over 64 MiB; of one
Sides image_pipeline(int width, int height);  // millions of pixels a second; OpenCV, our own without fusion

// 1,000 operations. ns each; as commands, and awaited one by one. A chain by functions of then(), or a graph of
// kernels, whose plan is there already.
enum class Chain : std::uint8_t { then, graph };
Sides awaited_operations();
Sides chained_operations(Chain chain, std::size_t elements);
Sides overlapped();  // ms of work of the device's and as much of the host's, spawned; one after the other

// Milliseconds of a call that nobody has made before, in a new process each time.
enum class FirstCall : std::uint8_t { first, second, from_disk };
Sides first_call(FirstCall which);

// On a GPU: a backend that Device::open takes. The rivals are programs written by hand on the same interface, two for
// the two ways it has to wait; for OpenGL ES there are none.
Sides gpu_submit_and_wait(const std::string& backend);  // microseconds of a kernel over a cache line; of an empty one
Sides gpu_run(const std::string& backend);              // the same
Sides gpu_pipeline(const std::string& backend);         // microseconds of ten tiny stages; ten runs, ten submits, and
                                                        // Vulkan's limit: ten dispatches in a command buffer
Sides gpu_add_relu_scale(const std::string& backend);   // GB/s over 64 MiB

Sides idle();             // milliseconds of processor time in a second without work
Sides million();          // MiB that stay after a million commands
Sides pending_command();  // bytes of a command that waits

}  // namespace bench
