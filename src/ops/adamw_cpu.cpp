// AdamW on the CPU: one pass over weights, moments and gradients.
//
// This file is compiled without contraction of a * b + c into one rounding: a compiler
// may contract differently in the vector body and the scalar tail of a loop, and then an
// element's result would depend on where a tensor was cut.
#include <cmath>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {
namespace {

enum class Rounded { no, yes };

// With Rounded::no there is no second copy of the weights, and R is not used.
template <Rounded rounds, class R, class G>
void update(TensorView weights, TensorView rounded, TensorView exp_avg,
            TensorView exp_avg_sq, TensorView gradients, const AdamWStep& step) {
  const double lr = step.learning_rate, beta1 = step.beta1, beta2 = step.beta2;
  const auto t = static_cast<double>(step.t);
  // Everything that is the same for all elements is computed in double and rounded once.
  const auto keep = static_cast<float>(1.0 - lr * step.weight_decay);
  const auto new1 = static_cast<float>(1.0 - beta1),
             new2 = static_cast<float>(1.0 - beta2);
  const auto size = static_cast<float>(lr / (1.0 - std::pow(beta1, t)));
  const auto unbias = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, t)));
  const float old1 = step.beta1, old2 = step.beta2;
  const float scale = step.gradient_scale, epsilon = step.epsilon;

  float* const weight = weights.data<float>();
  float* const first = exp_avg.data<float>();
  float* const second = exp_avg_sq.data<float>();
  const G* const gradient = gradients.data<G>();
  R* const low = rounds == Rounded::yes ? rounded.data<R>() : nullptr;
  const index_t count = weights.count();
#pragma omp parallel for simd schedule(static)
  for (index_t i = 0; i < count; ++i) {
    const float g = scale * to_float(gradient[i]);
    const float m = old1 * first[i] + new1 * g;
    const float v = old2 * second[i] + new2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float w = keep * weight[i] - size * m / (std::sqrt(v) * unbias + epsilon);
    weight[i] = w;
    if constexpr (rounds == Rounded::yes) low[i] = from_float<R>(w);
  }
}

}  // namespace

void adamw(TensorView weights, TensorView rounded, TensorView exp_avg,
           TensorView exp_avg_sq, TensorView gradients, const AdamWStep& step) {
  if (rounded.count() == 0) {
    with_type(gradients.dtype(), [&]<class G>(TypeTag<G>) {
      update<Rounded::no, float, G>(weights, rounded, exp_avg, exp_avg_sq, gradients,
                                    step);
    });
    return;
  }
  with_types(rounded.dtype(), gradients.dtype(),
             [&]<class R, class G>(TypeTag<R>, TypeTag<G>) {
               update<Rounded::yes, R, G>(weights, rounded, exp_avg, exp_avg_sq,
                                          gradients, step);
             });
}

}  // namespace llmtrain::ops::cpu
