// Cross-entropy on the CPU: a row of logits at a time stays in the second-level cache
// over its two or three passes.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "ops/cpu_kernels.hpp"
#include "ops/fast_exp.hpp"
#include "ops/largest.hpp"

namespace llmtrain::ops::cpu {
namespace {

constexpr index_t kPiece =
    1024;  // exponentials summed in f32 before they go into a double

enum class Keep { no, yes };

// The sum of exp(row - shift); with Keep::yes the exponentials replace the row.
template <Keep keep>
double sum_exp(float* row, index_t count, float shift) {
  double total = 0.0;
  for (index_t begin = 0; begin < count; begin += kPiece) {
    const index_t end = std::min(count, begin + kPiece);
    float partial = 0.0f;
#pragma omp simd reduction(+ : partial)
    for (index_t i = begin; i < end; ++i) {
      const float e = fast_exp(row[i] - shift);
      if constexpr (keep == Keep::yes) row[i] = e;
      partial += e;
    }
    total += partial;
  }
  return total;
}

float loss_of(double total, float shift, float logit) {
  return static_cast<float>(std::log(total) + (static_cast<double>(shift) - logit));
}

}  // namespace

void cross_entropy(TensorView losses, TensorView logits, TensorView labels,
                   index_t vocabulary) {
  const index_t tokens = logits.shape()[0], columns = logits.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t t = 0; t < tokens; ++t) {
    const std::int32_t label = labels.data<std::int32_t>()[t];
    float& loss = losses.data<float>()[t];
    if (label == kIgnoredLabel) {
      loss = 0.0f;
      continue;
    }
    assert(label >= 0 && label < vocabulary);
    float* const row = logits.data<float>() + t * columns;
    const float shift = largest(row, vocabulary);
    loss = loss_of(sum_exp<Keep::no>(row, vocabulary, shift), shift, row[label]);
  }
}

void cross_entropy_with_gradient(TensorView losses, TensorView logits, TensorView labels,
                                 index_t vocabulary, float scale) {
  const index_t tokens = logits.shape()[0], columns = logits.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t t = 0; t < tokens; ++t) {
    const std::int32_t label = labels.data<std::int32_t>()[t];
    float* const row = logits.data<float>() + t * columns;
    if (label == kIgnoredLabel) {
      losses.data<float>()[t] = 0.0f;
      std::fill_n(row, columns, 0.0f);
      continue;
    }
    assert(label >= 0 && label < vocabulary);
    const float shift = largest(row, vocabulary), logit = row[label];
    const double total = sum_exp<Keep::yes>(row, vocabulary, shift);
    losses.data<float>()[t] = loss_of(total, shift, logit);
    const auto factor = static_cast<float>(scale / total);
#pragma omp simd
    for (index_t i = 0; i < vocabulary; ++i) row[i] *= factor;
    row[label] -= scale;
    std::fill(row + vocabulary, row + columns, 0.0f);
  }
}

}  // namespace llmtrain::ops::cpu
