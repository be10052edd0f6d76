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

float sum_of(const float* r, index_t width) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (index_t c = 0; c < width; ++c) sum += r[c];
  return sum;
}

float sum_of_squares(const float* r, float mean, index_t width) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (index_t c = 0; c < width; ++c) sum += (r[c] - mean) * (r[c] - mean);
  return sum;
}

// residual = x + dropout(delta) for one row; `first` is the row's first element of the
// mask.
void add_delta(float* residual, const float* x, const float* delta, index_t width,
               const DropoutFactors& mask, index_t first, std::uint32_t position) {
  constexpr index_t kPiece = 256;
  for (index_t begin = 0; begin < width; begin += kPiece) {
    const index_t count = std::min(kPiece, width - begin);
    alignas(64) float factors[kPiece];
    mask.draw(factors, first + begin, count, position);
#pragma omp simd
    for (index_t c = 0; c < count; ++c) {
      residual[begin + c] = x[begin + c] + delta[begin + c] * factors[c];
    }
  }
}

// Rows are cut into parts whose partial sums of dweight and dbias are added in order; the
// number of parts depends on the row count only.
constexpr index_t kMostParts = 64, kLeastRows = 16;
index_t parts_of(index_t tokens) {
  return std::min(kMostParts, divide_up(tokens, kLeastRows));
}

// One row of backward; dweight and dbias are the part's partial sums.
template <NormKind kind>
void backward_row(float* dr, float* dweight, float* dbias, const float* dy,
                  const float* r, const float* weight, float mean, float rstd,
                  index_t width) {
  float sum_g = 0.0f, sum_gh = 0.0f;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (index_t c = 0; c < width; ++c) {
    const float h = (r[c] - mean) * rstd, g = dy[c] * weight[c];
    if constexpr (kind == NormKind::layer) {
      sum_g += g;
      dbias[c] += dy[c];
    }
    sum_gh += g * h;
    dweight[c] += dy[c] * h;
  }
  const float mean_g = sum_g / static_cast<float>(width);
  const float mean_gh = sum_gh / static_cast<float>(width);
#pragma omp simd
  for (index_t c = 0; c < width; ++c) {
    const float h = (r[c] - mean) * rstd;
    dr[c] += rstd * (dy[c] * weight[c] - mean_g - h * mean_gh);
  }
}

template <NormKind kind>
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
      backward_row<kind>(gradients.dr.data<float>() + t * width, dweight, dbias,
                         dy.data<float>() + t * width, r.data<float>() + t * width,
                         weight.data<float>(), stats[0], stats[1], width);
    }
  }
}

}  // namespace

void norm_forward(NormKind kind, float epsilon, TensorView y, TensorView statistics,
                  const NormInput& input, TensorView weight, TensorView bias) {
  const index_t tokens = y.shape()[0], width = y.shape()[1];
  const bool layer = kind == NormKind::layer, with_delta = input.delta.count() > 0;
  const bool drops = with_delta && input.dropout.probability > 0.0f;
  const index_t seq_len =
      drops ? tokens / static_cast<index_t>(input.dropout.positions.size()) : tokens;
  const DropoutFactors mask(input.dropout);
  const float* const scale = weight.data<float>();
  const float* const shift = layer ? bias.data<float>() : nullptr;
#pragma omp parallel for schedule(static)
  for (index_t t = 0; t < tokens; ++t) {
    const float* r = input.x.data<float>() + t * width;
    if (with_delta) {
      float* const residual = input.residual.data<float>() + t * width;
      const float* const delta = input.delta.data<float>() + t * width;
      if (drops) {
        add_delta(residual, r, delta, width, mask, (t % seq_len) * width,
                  input.dropout.positions[t / seq_len]);
      } else {
#pragma omp simd
        for (index_t c = 0; c < width; ++c) residual[c] = r[c] + delta[c];
      }
      r = residual;
    }
    const auto count = static_cast<float>(width);
    const float mean = layer ? sum_of(r, width) / count : 0.0f;
    const float rstd = 1.0f / std::sqrt(sum_of_squares(r, mean, width) / count + epsilon);
    statistics.data<float>()[2 * t] = mean;
    statistics.data<float>()[2 * t + 1] = rstd;
    float* const to = y.data<float>() + t * width;
    if (layer) {
#pragma omp simd
      for (index_t c = 0; c < width; ++c)
        to[c] = (r[c] - mean) * rstd * scale[c] + shift[c];
    } else {
#pragma omp simd
      for (index_t c = 0; c < width; ++c) to[c] = r[c] * rstd * scale[c];
    }
  }
}

Shape norm_backward_scratch(index_t tokens, index_t width) {
  return {parts_of(tokens), 2, width};
}

void norm_backward(NormKind kind, const NormGradients& gradients, TensorView dy,
                   TensorView r, TensorView statistics, TensorView weight,
                   TensorView scratch) {
  float* const partials = scratch.data<float>();
  switch (kind) {
    case NormKind::layer:
      backward_rows<NormKind::layer>(gradients, dy, r, statistics, weight, partials);
      break;
    case NormKind::rms:
      backward_rows<NormKind::rms>(gradients, dy, r, statistics, weight, partials);
      break;
  }
  const index_t width = r.shape()[1], parts = parts_of(r.shape()[0]);
  float* const dweight = gradients.dweight.data<float>();
  float* const dbias = kind == NormKind::layer ? gradients.dbias.data<float>() : nullptr;
#pragma omp parallel for schedule(static)
  for (index_t begin = 0; begin < width; begin += kLeastRows) {
    const index_t end = std::min(width, begin + kLeastRows);
    for (index_t part = 0; part < parts; ++part) {
      const float* const sums = partials + part * 2 * width;
#pragma omp simd
      for (index_t c = begin; c < end; ++c) dweight[c] += sums[c];
      if (dbias == nullptr) continue;
#pragma omp simd
      for (index_t c = begin; c < end; ++c) dbias[c] += sums[width + c];
    }
  }
}

}  // namespace llmtrain::ops::cpu
