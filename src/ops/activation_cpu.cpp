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
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* const from = x.data<T>();
    T* const to = y.data<T>();
    const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
    for (index_t i = 0; i < count; ++i) {
      const float v = to_float(from[i]);
      to[i] = from_float<T>(v * sigmoid(kTwoSqrt2OverPi * (v + kCubic * v * v * v)));
    }
  });
}

void gelu_backward(TensorView dx, TensorView dy, TensorView x) {
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T *const from = x.data<T>(), *const grad = dy.data<T>();
    T* const to = dx.data<T>();
    const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
    for (index_t i = 0; i < count; ++i) {
      const float v = to_float(from[i]);
      const float s = sigmoid(kTwoSqrt2OverPi * (v + kCubic * v * v * v));
      const float slope = kTwoSqrt2OverPi * (1.0f + 3.0f * kCubic * v * v);
      to[i] = from_float<T>(to_float(grad[i]) * (s + v * s * (1.0f - s) * slope));
    }
  });
}

void swiglu_forward(TensorView y, TensorView gate_up) {
  with_type(y.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t rows = y.shape()[0], width = y.shape()[1];
#pragma omp parallel for schedule(static)
    for (index_t row = 0; row < rows; ++row) {
      const T* const gate = gate_up.data<T>() + row * 2 * width;
      const T* const up = gate + width;
      T* const to = y.data<T>() + row * width;
#pragma omp simd
      for (index_t i = 0; i < width; ++i) {
        const float g = to_float(gate[i]);
        to[i] = from_float<T>(g * sigmoid(g) * to_float(up[i]));
      }
    }
  });
}

void swiglu_backward(TensorView dgate_up, TensorView dy, TensorView gate_up) {
  with_type(dy.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t rows = dy.shape()[0], width = dy.shape()[1];
#pragma omp parallel for schedule(static)
    for (index_t row = 0; row < rows; ++row) {
      const T* const gate = gate_up.data<T>() + row * 2 * width;
      const T* const up = gate + width;
      const T* const grad = dy.data<T>() + row * width;
      T* const dgate = dgate_up.data<T>() + row * 2 * width;
      T* const dup = dgate + width;
#pragma omp simd
      for (index_t i = 0; i < width; ++i) {
        const float g = to_float(gate[i]), u = to_float(up[i]), d = to_float(grad[i]);
        const float s = sigmoid(g);
        dgate[i] = from_float<T>(d * u * (s + g * s * (1.0f - s)));
        dup[i] = from_float<T>(d * g * s);
      }
    }
  });
}

}  // namespace llmtrain::ops::cpu
