// Activations of the MLP. All tensors of a call have one floating-point dtype.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

// GELU, tanh form (Hendrycks & Gimpel 2016): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715
// x^3))). y, x [tokens, width].
void gelu_forward(Context& ctx, TensorView y, TensorView x);
// dx = dy * gelu'(x); dx may be dy.
void gelu_backward(Context& ctx, TensorView dx, TensorView dy, TensorView x);

// SwiGLU (Shazeer 2020): y = silu(gate) * up;  gate_up [tokens, 2 * width] holds the gate
// in its first half of each row and up in the second; y [tokens, width].
void swiglu_forward(Context& ctx, TensorView y, TensorView gate_up);
// dgate_up [tokens, 2 * width] overwritten; may be gate_up itself.
void swiglu_backward(Context& ctx, TensorView dgate_up, TensorView dy,
                     TensorView gate_up);

}  // namespace llmtrain::ops
