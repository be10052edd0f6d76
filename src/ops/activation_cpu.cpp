// Activations on the CPU. Both are x times a sigmoid: 1 + tanh(u) = 2 sigmoid(2u), a form
// that keeps the relative accuracy of small values.
#include "ops/cpu_kernels.hpp"
#include "ops/fast_exp.hpp"

namespace llmtrain::ops::cpu {
namespace {

constexpr float kTwoSqrt2OverPi = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

}  // namespace

void gelu_forward(TensorView y, TensorView x) {
  const float* const from = x.data<float>();
  float* const to = y.data<float>();
  const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
  for (index_t i = 0; i < count; ++i) {
    const float v = from[i];
    to[i] = v * sigmoid(kTwoSqrt2OverPi * (v + kCubic * v * v * v));
  }
}

void gelu_backward(TensorView dx, TensorView dy, TensorView x) {
  const float *const from = x.data<float>(), *const grad = dy.data<float>();
  float* const to = dx.data<float>();
  const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
  for (index_t i = 0; i < count; ++i) {
    const float v = from[i];
    const float s = sigmoid(kTwoSqrt2OverPi * (v + kCubic * v * v * v));
    const float slope = kTwoSqrt2OverPi * (1.0f + 3.0f * kCubic * v * v);
    to[i] = grad[i] * (s + v * s * (1.0f - s) * slope);
  }
}

void swiglu_forward(TensorView y, TensorView gate_up) {
  const index_t rows = y.shape()[0], width = y.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t row = 0; row < rows; ++row) {
    const float* const gate = gate_up.data<float>() + row * 2 * width;
    const float* const up = gate + width;
    float* const to = y.data<float>() + row * width;
#pragma omp simd
    for (index_t i = 0; i < width; ++i) to[i] = gate[i] * sigmoid(gate[i]) * up[i];
  }
}

void swiglu_backward(TensorView dgate_up, TensorView dy, TensorView gate_up) {
  const index_t rows = dy.shape()[0], width = dy.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t row = 0; row < rows; ++row) {
    const float* const gate = gate_up.data<float>() + row * 2 * width;
    const float* const up = gate + width;
    const float* const grad = dy.data<float>() + row * width;
    float* const dgate = dgate_up.data<float>() + row * 2 * width;
    float* const dup = dgate + width;
#pragma omp simd
    for (index_t i = 0; i < width; ++i) {
      const float g = gate[i], u = up[i], s = sigmoid(g);
      dgate[i] = grad[i] * u * (s + g * s * (1.0f - s));
      dup[i] = grad[i] * g * s;
    }
  }
}

}  // namespace llmtrain::ops::cpu
