// Plain elementwise operations on the CPU.
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {

void fill(TensorView x, float value) {
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) {
    T* const data = x.data<T>();
    const index_t count = x.count();
    const T rounded = from_float<T>(value);
#pragma omp parallel for simd schedule(static)
    for (index_t i = 0; i < count; ++i) data[i] = rounded;
  });
}

void copy(TensorView y, TensorView x) {
  with_types(y.dtype(), x.dtype(), [&]<class Y, class X>(TypeTag<Y>, TypeTag<X>) {
    Y* const to = y.data<Y>();
    const X* const from = x.data<X>();
    const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
    for (index_t i = 0; i < count; ++i) to[i] = convert<Y>(from[i]);
  });
}

void add(TensorView y, TensorView x) {
  with_types(y.dtype(), x.dtype(), [&]<class Y, class X>(TypeTag<Y>, TypeTag<X>) {
    Y* const to = y.data<Y>();
    const X* const from = x.data<X>();
    const index_t count = x.count();
#pragma omp parallel for simd schedule(static)
    for (index_t i = 0; i < count; ++i) {
      to[i] = from_float<Y>(to_float(to[i]) + to_float(from[i]));
    }
  });
}

}  // namespace llmtrain::ops::cpu
