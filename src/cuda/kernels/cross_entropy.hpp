// Cross-entropy of logits against labels (ops/cross_entropy.hpp) on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "llmtrain/core/types.hpp"

namespace llmtrain::cuda {

// T is float, __nv_bfloat16 or __half; sums are f32.
template <class T>
struct CrossEntropy {
  float* losses;               // [tokens]
  T* logits;                   // [tokens, columns]
  const std::int32_t* labels;  // [tokens], each below vocabulary or kIgnoredLabel
  index_t tokens;
  int columns;  // those from `vocabulary` on are padding
  int vocabulary;
};

// Writes the losses; the logits stay as they are. Does not wait.
template <class T>
cudaError_t cross_entropy(const CrossEntropy<T>& arguments, cudaStream_t stream);

// Also replaces the logits by scale * (softmax - onehot), and by 0 in padding columns and in
// rows that are ignored.
template <class T>
cudaError_t cross_entropy_with_gradient(const CrossEntropy<T>& arguments, float scale,
                                        cudaStream_t stream);

}  // namespace llmtrain::cuda
