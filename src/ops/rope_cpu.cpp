// Rotary position embedding on the CPU.
#include <cmath>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {

void rope_table(TensorView table, double theta) {
  const index_t positions = table.shape()[0], head_dim = table.shape()[1];
  const index_t half = head_dim / 2;
#pragma omp parallel for schedule(static)
  for (index_t p = 0; p < positions; ++p) {
    float* const row = table.data<float>() + p * head_dim;
    for (index_t i = 0; i < half; ++i) {
      const double exponent =
          -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
      const double angle = static_cast<double>(p) * std::pow(theta, exponent);
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void rope(TensorView x, TensorView table, const RopeShape& shape,
          RopeDirection direction) {
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t tokens = x.shape()[0], columns = x.shape()[1],
                  half = shape.head_dim / 2;
    const float sign = direction == RopeDirection::forward ? 1.0f : -1.0f;
#pragma omp parallel for schedule(static)
    for (index_t t = 0; t < tokens; ++t) {
      const index_t position = t % shape.seq_len + shape.position_offset;
      const float* const cosine = table.data<float>() + position * shape.head_dim;
      const float* const sine = cosine + half;
      for (index_t head = 0; head < shape.heads; ++head) {
        T* const low = x.data<T>() + t * columns + head * shape.head_dim;
        T* const high = low + half;
#pragma omp simd
        for (index_t i = 0; i < half; ++i) {
          const float a = to_float(low[i]), b = to_float(high[i]), s = sign * sine[i];
          low[i] = from_float<T>(a * cosine[i] - b * s);
          high[i] = from_float<T>(b * cosine[i] + a * s);
        }
      }
    }
  });
}

}  // namespace llmtrain::ops::cpu
