// Cross-entropy on the CPU: a row of logits at a time stays in the second-level cache
// over its two or three passes.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "ops/cpu_kernels.hpp"
#include "ops/fast_exp.hpp"
#include "ops/largest.hpp"

namespace llmtrain::ops::cpu {
namespace {

constexpr index_t kPiece =
    1024;  // exponentials summed in f32 before they go into a double

// Whether a row can hold the exponentials until they are scaled: in 16 bits they would be
// rounded twice, so there they are computed again.
template <class T>
constexpr bool kKeeps = std::is_same_v<T, float>;

// The sum of exp(row - shift) over pieces; each(i, e) is told every exponential.
template <class T, class Each>
double sum_exp(const T* row, index_t count, float shift, Each each) {
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

float loss_of(double total, float shift, float logit) {
  return static_cast<float>(std::log(total) + (static_cast<double>(shift) - logit));
}

template <class T>
float loss_of_row(const T* row, index_t vocabulary, std::int32_t label) {
  if (label == kIgnoredLabel) return 0.0f;
  assert(label >= 0 && label < vocabulary);
  const float shift = largest(row, vocabulary);
  const double total = sum_exp(row, vocabulary, shift, [](index_t, float) {});
  return loss_of(total, shift, to_float(row[label]));
}

// The loss; the row becomes its gradient.
template <class T>
float differentiate_row(T* row, index_t columns, index_t vocabulary, std::int32_t label,
                        float scale) {
  if (label == kIgnoredLabel) {
    std::fill_n(row, columns, T{});
    return 0.0f;
  }
  assert(label >= 0 && label < vocabulary);
  const float shift = largest(row, vocabulary), logit = to_float(row[label]);
  const double total = sum_exp(row, vocabulary, shift, [row](index_t i, float e) {
    if constexpr (kKeeps<T>) row[i] = e;
  });
  const auto factor = static_cast<float>(scale / total);
  const float at_label = kKeeps<T> ? to_float(row[label]) : fast_exp(logit - shift);
#pragma omp simd
  for (index_t i = 0; i < vocabulary; ++i) {
    const float e = kKeeps<T> ? to_float(row[i]) : fast_exp(to_float(row[i]) - shift);
    row[i] = from_float<T>(e * factor);
  }
  row[label] = from_float<T>(at_label * factor - scale);
  std::fill(row + vocabulary, row + columns, T{});
  return loss_of(total, shift, logit);
}

}  // namespace

void cross_entropy(TensorView losses, TensorView logits, TensorView labels,
                   index_t vocabulary) {
  with_type(logits.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t tokens = logits.shape()[0], columns = logits.shape()[1];
#pragma omp parallel for schedule(static)
    for (index_t t = 0; t < tokens; ++t) {
      losses.data<float>()[t] = loss_of_row(logits.data<T>() + t * columns, vocabulary,
                                            labels.data<std::int32_t>()[t]);
    }
  });
}

void cross_entropy_with_gradient(TensorView losses, TensorView logits, TensorView labels,
                                 index_t vocabulary, float scale) {
  with_type(logits.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t tokens = logits.shape()[0], columns = logits.shape()[1];
#pragma omp parallel for schedule(static)
    for (index_t t = 0; t < tokens; ++t) {
      losses.data<float>()[t] =
          differentiate_row(logits.data<T>() + t * columns, columns, vocabulary,
                            labels.data<std::int32_t>()[t], scale);
    }
  });
}

}  // namespace llmtrain::ops::cpu
