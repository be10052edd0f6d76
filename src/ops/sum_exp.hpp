// Sums of exponentials of a row of logits.
#pragma once

#include <algorithm>

#include "llmtrain/core/types.hpp"
#include "llmtrain/tensor/half.hpp"
#include "ops/fast_exp.hpp"

namespace llmtrain::ops::cpu {

// The sum of exp(row - shift), in f32 over pieces and in double over these; each(i, e) is told
// every exponential.
template <class T, class Each>
double sum_exp(const T* row, index_t count, float shift, Each each) {
  constexpr index_t kPiece = 1024;
  double total = 0.0;
  for (index_t begin = 0; begin < count; begin += kPiece) {
    const index_t end = std::min(count, begin + kPiece);
    float partial = 0.0f;
#pragma omp simd reduction(+ : partial)
    for (index_t i = begin; i < end; ++i) {
      const float e = fast_exp(to_float(row[i]) - shift);
      each(i, e);
      partial += e;
    }
    total += partial;
  }
  return total;
}

}  // namespace llmtrain::ops::cpu
