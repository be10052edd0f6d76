// LayerNorm and RMSNorm with the residual addition before them (ops/norm.hpp) on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "llmtrain/core/types.hpp"

namespace llmtrain::cuda {

// T is float, __nv_bfloat16 or __half; sums are f32.
template <class T>
struct NormForward {
  T* y;               // [tokens, width]
  float* statistics;  // [tokens, 2]: mean (0 for RMSNorm), rstd
  const T* x;         // [tokens, width]
  const T* delta;     // [tokens, width], or null: then x is what is normalised
  T* residual;        // [tokens, width] = x + delta, rounded to T before it is normalised
  const T* weight;    // [width]
  const T* bias;      // [width], or null for RMSNorm
  index_t tokens;
  int width;
  float epsilon;
};

// y may be x or delta, and residual may be x. At most 4096 columns; where every row begins
// on 16 bytes, 65536 bytes a row; else cudaErrorInvalidValue. Does not wait.
template <class T>
cudaError_t norm_forward(const NormForward<T>& arguments, cudaStream_t stream);

}  // namespace llmtrain::cuda
