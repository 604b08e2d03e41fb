#pragma once

#include "harness.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

// Each function sets up one case of the table in main.cpp.
namespace bench {

// scale costs more: it has a parameter.
enum class Kernel : std::uint8_t { relu, scale };

// Whether commands can run when submitted, or wait for a mapped buffer until all have been submitted.
enum class Ahead : std::uint8_t { nothing, map };

// ns per command; TBB: the tasks of a task_group. The commands write this many buffers in turn.
Sides independent(Kernel kernel, std::size_t commands, std::size_t outputs, Ahead ahead = Ahead::nothing);
Sides chain(Kernel kernel, Ahead ahead = Ahead::nothing);  // ns per command; TBB: the stages of a prebuilt flow_graph

Sides run(Kernel kernel);       // ns; TBB: task_group::run and wait
Sides submit_and_wait();        // ns; TBB: the same
Sides submit_and_wait_async();  // ns; std::async and get

Sides middling(unsigned threads);  // µs per command that moves 32 KiB; TBB: one task_group per thread
Sides large();                     // GB/s over 64 MiB; two threads with half of it each

Sides wake();  // µs from submit until a sleeping worker has run it; a futex and a sleeping thread

// Kernels, compared with the libraries named in main.cpp. Arrays are in the caches or in memory.
enum class Extent : std::uint8_t { cache, memory };
Sides add_relu_scale(std::size_t elements, Extent extent);  // GB/s
template <class T>
Sides matmul(int size);                  // GFLOP/s; float, double, std::int32_t
Sides softmax(int rows, int columns);    // GB/s
Sides row_sums(int rows, int columns);   // GB/s
Sides sum_of_all(std::size_t elements);  // GB/s
// Millions of pixels per second.
Sides gaussian_blur(int width, int height);
Sides resize(int width, int height, int output_width, int output_height);
Sides look_up(int width, int height);
Sides saturation(int width, int height);

// Replayed pipelines. ns for ten stages over a cache line; TBB: a prebuilt flow_graph of ten empty nodes.
Sides tiny_pipeline(bool can_fuse);
Sides long_chain();                           // ms for ten element-wise stages over 64 MiB; for one
Sides image_pipeline(int width, int height);  // millions of pixels per second; OpenCV, ours without fusion

// 1,000 operations. ns each; as commands, and awaited one by one. Either chained with then(), or a graph of kernels
// that has been planned already.
enum class Chain : std::uint8_t { then, graph };
Sides awaited_operations();
Sides chained_operations(Chain chain, std::size_t elements);
Sides overlapped();  // ms for equal device and host work, overlapped; one after the other

// Milliseconds of a first call, in a new process each time.
enum class FirstCall : std::uint8_t { first, second, from_disk };
Sides first_call(FirstCall which);

// On a GPU, given by its backend. The rivals are hand-written programs on the same API, two for its two ways of
// waiting; none for OpenGL ES.
Sides gpu_submit_and_wait(const std::string& backend);  // µs for a kernel over a cache line; for an empty one
Sides gpu_run(const std::string& backend);              // the same
Sides gpu_pipeline(const std::string& backend);         // µs for ten tiny stages; ten runs, ten submits, and
                                                        // Vulkan's limit: ten dispatches in a command buffer
Sides gpu_add_relu_scale(const std::string& backend);   // GB/s over 64 MiB

Sides idle();             // ms of processor time in a second without work
Sides million();          // MiB still in use after a million commands
Sides pending_command();  // bytes of a pending command

}  // namespace bench
