// LayerNorm and RMSNorm on the CPU. A row stays in the first-level cache over its passes.
//
// Legend: r what is normalised, h = (r - mean) * rstd, g = dy * weight. Backward:
// dr = rstd * (g - mean(g) - h * mean(g h)), without mean(g) for rms.
#include <algorithm>
#include <cmath>

#include "ops/cpu_kernels.hpp"
#include "ops/dropout_factors.hpp"

namespace llmtrain::ops::cpu {
namespace {

template <class T>
float sum_of(const T* r, index_t width) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (index_t c = 0; c < width; ++c) sum += to_float(r[c]);
  return sum;
}

template <class T>
float sum_of_squares(const T* r, float mean, index_t width) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (index_t c = 0; c < width; ++c) {
    const float d = to_float(r[c]) - mean;
    sum += d * d;
  }
  return sum;
}

// residual = x + dropout(delta) for one row; `first` is the row's first element of the
// mask.
template <class T>
void add_dropped(T* residual, const T* x, const T* delta, index_t width,
                 const DropoutFactors& mask, index_t first, std::uint32_t position) {
  constexpr index_t kPiece = 256;
  for (index_t begin = 0; begin < width; begin += kPiece) {
    const index_t count = std::min(kPiece, width - begin);
    alignas(64) float factors[kPiece];
    mask.draw(factors, first + begin, count, position);
#pragma omp simd
    for (index_t c = 0; c < count; ++c) {
      residual[begin + c] =
          from_float<T>(to_float(x[begin + c]) + to_float(delta[begin + c]) * factors[c]);
    }
  }
}

// y = (r - mean) * rstd * weight + bias for one row; its mean and rstd.
template <NormKind kind, class T>
void normalise_row(T* y, float* statistics, const T* r, const T* weight, const T* bias,
                   float epsilon, index_t width) {
  const auto count = static_cast<float>(width);
  const float mean = kind == NormKind::layer ? sum_of(r, width) / count : 0.0f;
  const float rstd = 1.0f / std::sqrt(sum_of_squares(r, mean, width) / count + epsilon);
  statistics[0] = mean;
  statistics[1] = rstd;
#pragma omp simd
  for (index_t c = 0; c < width; ++c) {
    const float scaled = (to_float(r[c]) - mean) * rstd * to_float(weight[c]);
    if constexpr (kind == NormKind::layer) {
      y[c] = from_float<T>(scaled + to_float(bias[c]));
    } else {
      y[c] = from_float<T>(scaled);
    }
  }
}

template <NormKind kind, class T>
void forward_rows(float epsilon, TensorView y, TensorView statistics,
                  const NormInput& input, TensorView weight, TensorView bias) {
  const index_t tokens = y.shape()[0], width = y.shape()[1];
  const bool with_delta = input.delta.count() > 0;
  const bool drops = with_delta && input.dropout.probability > 0.0f;
  const index_t seq_len =
      drops ? tokens / static_cast<index_t>(input.dropout.positions.size()) : tokens;
  const DropoutFactors mask(input.dropout);
  const T* const shift = kind == NormKind::layer ? bias.data<T>() : nullptr;
#pragma omp parallel for schedule(static)
  for (index_t t = 0; t < tokens; ++t) {
    const T* r = input.x.data<T>() + t * width;
    if (with_delta) {
      T* const residual = input.residual.data<T>() + t * width;
      const T* const delta = input.delta.data<T>() + t * width;
      if (drops) {
        add_dropped(residual, r, delta, width, mask, (t % seq_len) * width,
                    input.dropout.positions[t / seq_len]);
      } else {
#pragma omp simd
        for (index_t c = 0; c < width; ++c) {
          residual[c] = from_float<T>(to_float(r[c]) + to_float(delta[c]));
        }
      }
      r = residual;
    }
    normalise_row<kind>(y.data<T>() + t * width, statistics.data<float>() + 2 * t, r,
                        weight.data<T>(), shift, epsilon, width);
  }
}

// Rows are cut into parts whose partial sums of dweight and dbias are added in order; the
// number of parts depends on the row count only.
constexpr index_t kMostParts = 64, kLeastRows = 16;
index_t parts_of(index_t tokens) {
  return std::min(kMostParts, divide_up(tokens, kLeastRows));
}

// One row of backward; dweight and dbias are the part's partial sums.
template <NormKind kind, class T>
void backward_row(T* dr, float* dweight, float* dbias, const T* dy, const T* r,
                  const T* weight, float mean, float rstd, index_t width) {
  float sum_g = 0.0f, sum_gh = 0.0f;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (index_t c = 0; c < width; ++c) {
    const float d = to_float(dy[c]);
    const float h = (to_float(r[c]) - mean) * rstd, g = d * to_float(weight[c]);
    if constexpr (kind == NormKind::layer) {
      sum_g += g;
      dbias[c] += d;
    }
    sum_gh += g * h;
    dweight[c] += d * h;
  }
  const float mean_g = sum_g / static_cast<float>(width);
  const float mean_gh = sum_gh / static_cast<float>(width);
#pragma omp simd
  for (index_t c = 0; c < width; ++c) {
    const float h = (to_float(r[c]) - mean) * rstd;
    const float g = to_float(dy[c]) * to_float(weight[c]);
    dr[c] = from_float<T>(to_float(dr[c]) + rstd * (g - mean_g - h * mean_gh));
  }
}

template <NormKind kind, class T>
void backward_rows(const NormGradients& gradients, TensorView dy, TensorView r,
                   TensorView statistics, TensorView weight, float* partials) {
  const index_t tokens = r.shape()[0], width = r.shape()[1], parts = parts_of(tokens);
#pragma omp parallel for schedule(static)
  for (index_t part = 0; part < parts; ++part) {
    float* const dweight = partials + part * 2 * width;
    float* const dbias = dweight + width;
    std::fill_n(dweight, 2 * width, 0.0f);
    for (index_t t = tokens * part / parts; t < tokens * (part + 1) / parts; ++t) {
      const float* const stats = statistics.data<float>() + 2 * t;
      backward_row<kind>(gradients.dr.data<T>() + t * width, dweight, dbias,
                         dy.data<T>() + t * width, r.data<T>() + t * width,
                         weight.data<T>(), stats[0], stats[1], width);
    }
  }
}

// sum += the parts' partial sums, `first` floats into each part.
template <class G>
void add_partials(TensorView sum, const float* partials, index_t parts, index_t first) {
  const index_t width = sum.count();
  G* const to = sum.data<G>();
#pragma omp parallel for schedule(static)
  for (index_t begin = 0; begin < width; begin += kLeastRows) {
    const index_t count = std::min(kLeastRows, width - begin);
    float total[kLeastRows];
    for (index_t c = 0; c < count; ++c) total[c] = to_float(to[begin + c]);
    for (index_t part = 0; part < parts; ++part) {
      const float* const sums = partials + part * 2 * width + first + begin;
#pragma omp simd
      for (index_t c = 0; c < count; ++c) total[c] += sums[c];
    }
    for (index_t c = 0; c < count; ++c) to[begin + c] = from_float<G>(total[c]);
  }
}

}  // namespace

void norm_forward(NormKind kind, float epsilon, TensorView y, TensorView statistics,
                  const NormInput& input, TensorView weight, TensorView bias) {
  with_type(y.dtype(), [&]<class T>(TypeTag<T>) {
    switch (kind) {
      case NormKind::layer:
        return forward_rows<NormKind::layer, T>(epsilon, y, statistics, input, weight,
                                                bias);
      case NormKind::rms:
        return forward_rows<NormKind::rms, T>(epsilon, y, statistics, input, weight,
                                              bias);
    }
  });
}

Shape norm_backward_scratch(index_t tokens, index_t width) {
  return {parts_of(tokens), 2, width};
}

void norm_backward(NormKind kind, const NormGradients& gradients, TensorView dy,
                   TensorView r, TensorView statistics, TensorView weight,
                   TensorView scratch) {
  float* const partials = scratch.data<float>();
  with_type(r.dtype(), [&]<class T>(TypeTag<T>) {
    switch (kind) {
      case NormKind::layer:
        return backward_rows<NormKind::layer, T>(gradients, dy, r, statistics, weight,
                                                 partials);
      case NormKind::rms:
        return backward_rows<NormKind::rms, T>(gradients, dy, r, statistics, weight,
                                               partials);
    }
  });
  const index_t parts = parts_of(r.shape()[0]), width = r.shape()[1];
  with_type(gradients.dweight.dtype(), [&]<class G>(TypeTag<G>) {
    add_partials<G>(gradients.dweight, partials, parts, 0);
    if (kind == NormKind::layer) {
      add_partials<G>(gradients.dbias, partials, parts, width);
    }
  });
}

}  // namespace llmtrain::ops::cpu
