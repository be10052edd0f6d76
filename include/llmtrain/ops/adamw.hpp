// AdamW: Loshchilov & Hutter 2019, algorithm 2, in PyTorch's order of operations.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

struct AdamWStep {
  float learning_rate, beta1, beta2, epsilon;
  float weight_decay;    // 0 for rows that are not decayed
  float gradient_scale;  // multiplied into each gradient first (clipping)
  index_t t;             // 1 on the first applied step
};

// g = gradient_scale * gradient;  p *= 1 - lr wd;  m = b1 m + (1 - b1) g;
// v = b2 v + (1 - b2) g^2;  p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps).
// Weights and moments f32, gradients of any floating-point dtype, equal counts. The new
// weights are also written to `rounded` in its dtype, unless it is empty. Each element's
// result depends on that element alone, bit for bit, so it is the same however the tensor
// is cut.
void adamw(Context& ctx, TensorView weights, TensorView rounded, TensorView exp_avg,
           TensorView exp_avg_sq, TensorView gradients, const AdamWStep& step);

}  // namespace llmtrain::ops
