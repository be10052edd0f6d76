// Activations: checks and dispatch.
#include "llmtrain/ops/activation.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void gelu_forward(Context& ctx, TensorView y, TensorView x) {
  check_floating("gelu_forward", "x", x);
  check_tensor("gelu_forward", "y", y, x.shape(), x.dtype());
  if (ctx.device.is_meta()) return;
  cpu::gelu_forward(y, x);
}

void gelu_backward(Context& ctx, TensorView dx, TensorView dy, TensorView x) {
  check_floating("gelu_backward", "x", x);
  check_tensor("gelu_backward", "dy", dy, x.shape(), x.dtype());
  check_tensor("gelu_backward", "dx", dx, x.shape(), x.dtype());
  if (ctx.device.is_meta()) return;
  cpu::gelu_backward(dx, dy, x);
}

void swiglu_forward(Context& ctx, TensorView y, TensorView gate_up) {
  check_matrix("swiglu_forward", "y", y);
  check_tensor("swiglu_forward", "gate_up", gate_up,
               Shape{y.shape()[0], 2 * y.shape()[1]}, y.dtype());
  if (ctx.device.is_meta()) return;
  cpu::swiglu_forward(y, gate_up);
}

void swiglu_backward(Context& ctx, TensorView dgate_up, TensorView dy,
                     TensorView gate_up) {
  check_matrix("swiglu_backward", "dy", dy);
  const Shape fused{dy.shape()[0], 2 * dy.shape()[1]};
  check_tensor("swiglu_backward", "gate_up", gate_up, fused, dy.dtype());
  check_tensor("swiglu_backward", "dgate_up", dgate_up, fused, dy.dtype());
  if (ctx.device.is_meta()) return;
  cpu::swiglu_backward(dgate_up, dy, gate_up);
}

}  // namespace llmtrain::ops
