// AdamW (ops/adamw.hpp) on a GPU, over many flat ranges at once.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "llmtrain/ops/adamw.hpp"

namespace llmtrain::cuda {

// Equal counts of f32 masters and moments, gradients of type G, and weights of type W that
// are written as the rounded masters. With W float the masters are the weights: `weight` is
// null.
template <class W, class G>
struct AdamWRange {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  const G* gradient;
  W* weight;
  index_t count;
};

// One step of all ranges, which must not overlap. Every f32 operation is rounded by itself
// as on the CPU: the results are the CPU's, bit for bit, and no element's result depends on
// where a range begins. Fast where all pointers of a range reach a
// 16-byte boundary at the same element. Does not wait.
template <class W, class G>
cudaError_t adamw(std::span<const AdamWRange<W, G>> ranges, const ops::AdamWStep& step,
                  cudaStream_t stream);

}  // namespace llmtrain::cuda
