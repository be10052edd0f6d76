// Dropout on the CPU: the mask of a piece of a row is drawn next to its use.
#include <algorithm>

#include "ops/cpu_kernels.hpp"
#include "ops/dropout_factors.hpp"

namespace llmtrain::ops::cpu {
namespace {

constexpr index_t kPiece = 256;  // columns whose factors are on the stack at once

// y = residual + factor * x, or factor * x without a residual.
template <class T>
void apply(TensorView y, const T* residual, TensorView x, const Dropout& dropout) {
  const index_t rows = x.shape()[0], width = x.shape()[1];
  if (rows == 0) return;
  const index_t seq_len = rows / static_cast<index_t>(dropout.positions.size());
  const DropoutFactors mask(dropout);
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
#pragma omp parallel for schedule(static)
  for (index_t row = 0; row < rows; ++row) {
    const std::uint32_t position = dropout.positions[row / seq_len];
    for (index_t begin = 0; begin < width; begin += kPiece) {
      const index_t count = std::min(kPiece, width - begin), at = row * width + begin;
      alignas(64) float factors[kPiece];
      mask.draw(factors, (row % seq_len) * width + begin, count, position);
      if (residual == nullptr) {
#pragma omp simd
        for (index_t i = 0; i < count; ++i) {
          to[at + i] = from_float<T>(to_float(from[at + i]) * factors[i]);
        }
      } else {
#pragma omp simd
        for (index_t i = 0; i < count; ++i) {
          to[at + i] = from_float<T>(to_float(residual[at + i]) +
                                     to_float(from[at + i]) * factors[i]);
        }
      }
    }
  }
}

}  // namespace

void dropout(TensorView y, TensorView x, const Dropout& dropout) {
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    if (dropout.probability > 0.0f) return apply<T>(y, nullptr, x, dropout);
    if (y.data<T>() != x.data<T>()) copy(y, x);
  });
}

void add_dropout(TensorView y, TensorView residual, TensorView x,
                 const Dropout& dropout) {
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    if (dropout.probability > 0.0f) return apply(y, residual.data<T>(), x, dropout);
    const T *const a = residual.data<T>(), *const b = x.data<T>();
    T* const to = y.data<T>();
    const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
    for (index_t i = 0; i < count; ++i) {
      to[i] = from_float<T>(to_float(a[i]) + to_float(b[i]));
    }
  });
}

}  // namespace llmtrain::ops::cpu
