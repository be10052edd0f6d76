// LayerNorm (Ba, Kiros, Hinton 2016, eq. 4; biased variance) and RMSNorm (Zhang &
// Sennrich 2019, eq. 4) over the last dimension, optionally with the residual addition
// before them: the addition and the normalisation are one pass over memory. Activations and
// weights of a call have one floating-point dtype, gradients of weights any; statistics are
// f32.
#pragma once

#include "llmtrain/ops/dropout.hpp"

namespace llmtrain::ops {

enum class NormKind { layer, rms };

// What is normalised: x, or residual = x + dropout(delta) when delta is given.
struct NormInput {
  TensorView x{};         // [tokens, width]
  TensorView delta{};     // [tokens, width] or empty
  TensorView residual{};  // [tokens, width], written when delta is given, else empty
  Dropout dropout{};      // of delta
};

// y = (r - mean) * rstd * weight + bias   (layer)     rstd = 1 / sqrt(variance + epsilon)
// y = r * rstd * weight                   (rms)       rstd = 1 / sqrt(mean(r^2) +
// epsilon) y [tokens, width]; statistics [tokens, 2] = (mean, rstd), written for the
// backward pass (mean 0 for rms); weight [width]; bias [width], empty for rms.
void norm_forward(Context& ctx, NormKind kind, float epsilon, TensorView y,
                  TensorView statistics, const NormInput& input, TensorView weight,
                  TensorView bias);

struct NormGradients {
  TensorView dr;       // [tokens, width], accumulated: gradient of r
  TensorView dweight;  // [width], accumulated
  TensorView dbias;    // [width], accumulated; empty for rms
};

// r [tokens, width] is what was normalised (x, or the residual that forward wrote).
// Deterministic: the sums over tokens have a fixed order for a given thread count.
void norm_backward(Context& ctx, NormKind kind, const NormGradients& gradients,
                   TensorView dy, TensorView r, TensorView statistics, TensorView weight);

}  // namespace llmtrain::ops
