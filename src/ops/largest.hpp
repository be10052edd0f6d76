// The largest of many numbers.
#pragma once

#include <limits>

#include "llmtrain/core/types.hpp"
#include "llmtrain/tensor/half.hpp"

namespace llmtrain::ops::cpu {

// At least `floor`; NaNs are passed over. The lanes are written out because compilers
// keep a max reduction of one variable scalar: it is not associative for them when there
// are NaNs.
template <class T>
float largest(const T* values, index_t count,
              float floor = -std::numeric_limits<float>::infinity()) {
  constexpr index_t kWidth = 64;
  const auto larger = [](float a, float b) { return a < b ? b : a; };
  float lanes[kWidth];
  for (float& lane : lanes) lane = floor;
  index_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
#pragma omp simd
    for (index_t lane = 0; lane < kWidth; ++lane) {
      lanes[lane] = larger(lanes[lane], to_float(values[i + lane]));
    }
  }
  for (index_t lane = 0; i < count; ++i, ++lane)
    lanes[lane] = larger(lanes[lane], to_float(values[i]));
  for (index_t half = kWidth / 2; half > 0; half /= 2) {
#pragma omp simd
    for (index_t lane = 0; lane < half; ++lane) {
      lanes[lane] = larger(lanes[lane], lanes[lane + half]);
    }
  }
  return lanes[0];
}

}  // namespace llmtrain::ops::cpu
