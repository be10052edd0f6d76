// Cross-entropy over a split vocabulary on the CPU.
#include <algorithm>
#include <cmath>

#include "ops/cpu_kernels.hpp"
#include "ops/fast_exp.hpp"
#include "ops/largest.hpp"
#include "ops/sum_exp.hpp"

namespace llmtrain::ops::cpu {
namespace {

// Columns of this part that are no padding.
index_t valid_columns(TensorView logits, const VocabularyPart& part) {
  return std::clamp<index_t>(part.vocabulary - part.first_id, 0, logits.shape()[1]);
}

// The label's column in this part, or -1.
index_t column_of(std::int32_t label, index_t columns, const VocabularyPart& part) {
  const index_t column = label - part.first_id;
  return label != kIgnoredLabel && column >= 0 && column < columns ? column : -1;
}

}  // namespace

void vocabulary_statistics(TensorView statistics, TensorView logits, TensorView labels,
                           const VocabularyPart& part) {
  with_type(logits.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t tokens = logits.shape()[0], stride = logits.shape()[1];
    const index_t columns = valid_columns(logits, part);
#pragma omp parallel for schedule(static)
    for (index_t t = 0; t < tokens; ++t) {
      const T* const row = logits.data<T>() + t * stride;
      float* const out = statistics.data<float>() + 3 * t;
      const index_t label = column_of(labels.data<std::int32_t>()[t], columns, part);
      out[0] = largest(row, columns);
      out[1] =
          columns == 0
              ? 0.0f
              : static_cast<float>(sum_exp(row, columns, out[0], [](index_t, float) {}));
      out[2] = label < 0 ? 0.0f : to_float(row[label]);
    }
  });
}

void combine_statistics(TensorView losses, TensorView lse, TensorView statistics,
                        TensorView labels) {
  const index_t ranks = statistics.shape()[0], tokens = statistics.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t t = 0; t < tokens; ++t) {
    const auto part = [&](index_t r) {
      return statistics.data<float>() + (r * tokens + t) * 3;
    };
    double most = part(0)[0], sum = 0, target = 0;
    for (index_t r = 1; r < ranks; ++r) most = std::max<double>(most, part(r)[0]);
    for (index_t r = 0; r < ranks; ++r) {
      sum += part(r)[1] * std::exp(part(r)[0] - most);
      target += part(r)[2];
    }
    const double whole = most + std::log(sum);
    lse.data<float>()[t] = static_cast<float>(whole);
    losses.data<float>()[t] = labels.data<std::int32_t>()[t] == kIgnoredLabel
                                  ? 0.0f
                                  : static_cast<float>(whole - target);
  }
}

void vocabulary_gradient(TensorView logits, TensorView labels, TensorView lse,
                         const VocabularyPart& part, float scale) {
  with_type(logits.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t tokens = logits.shape()[0], stride = logits.shape()[1];
    const index_t columns = valid_columns(logits, part);
#pragma omp parallel for schedule(static)
    for (index_t t = 0; t < tokens; ++t) {
      T* const row = logits.data<T>() + t * stride;
      const std::int32_t label = labels.data<std::int32_t>()[t];
      if (label == kIgnoredLabel) {
        std::fill_n(row, stride, T{});
        continue;
      }
      const float shift = lse.data<float>()[t];
      const index_t target = column_of(label, columns, part);
      const float at_target =
          target < 0 ? 0.0f : scale * (fast_exp(to_float(row[target]) - shift) - 1.0f);
#pragma omp simd
      for (index_t i = 0; i < columns; ++i) {
        row[i] = from_float<T>(scale * fast_exp(to_float(row[i]) - shift));
      }
      if (target >= 0) row[target] = from_float<T>(at_target);
      std::fill(row + columns, row + stride, T{});
    }
  });
}

}  // namespace llmtrain::ops::cpu
