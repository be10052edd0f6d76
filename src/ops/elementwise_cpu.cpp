// Plain elementwise f32 operations on the CPU.
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {

void fill(TensorView x, float value) {
  float* const data = x.data<float>();
  const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
  for (index_t i = 0; i < count; ++i) data[i] = value;
}

void copy(TensorView y, TensorView x) {
  float* const to = y.data<float>();
  const float* const from = x.data<float>();
  const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
  for (index_t i = 0; i < count; ++i) to[i] = from[i];
}

void add(TensorView y, TensorView x) {
  float* const to = y.data<float>();
  const float* const from = x.data<float>();
  const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
  for (index_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace llmtrain::ops::cpu
