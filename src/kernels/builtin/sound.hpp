#pragma once

#include <tessera/tile.hpp>

#include "kernels/kernel.hpp"

#include <cstdint>

// Helpers shared by the sound kernels. A sound is f32 [channels,samples], or [samples] for one channel. Programs see it
// as [channels,samples].
namespace tessera::kernels {

struct Sound {
  explicit Sound(const Shape& shape) : channels(shape.rank() == 2 ? shape[0] : 1), samples(shape[shape.rank() - 1]) {}

  std::int64_t channels, samples;

  Shape rows() const { return {channels, samples}; }
};

// The input must be f32, and [samples] or [channels,samples].
Sound checked_sound(const Call& call, std::size_t input);
// The same for input 0; the output must have its type and shape.
Sound checked_sound_like_output(const Call& call);
// Input 0 and the output must be sounds with the same rank and number of channels. `samples` is what the output must
// have.
Sound checked_sound_but_length(const Call& call, std::int64_t samples);

Lowering lower_biquad_filter(const Call& call);
Lowering lower_dynamics_compress(const Call& call);
Lowering lower_fft_convolve(const Call& call);

}  // namespace tessera::kernels
