// AdamW: checks and dispatch.
#include "llmtrain/ops/adamw.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void adamw(Context& ctx, TensorView weights, TensorView rounded, TensorView exp_avg,
           TensorView exp_avg_sq, TensorView gradients, const AdamWStep& step) {
  check_dtype("adamw", "weights", weights, Dtype::f32);
  check_dtype("adamw", "exp_avg", exp_avg, Dtype::f32);
  check_dtype("adamw", "exp_avg_sq", exp_avg_sq, Dtype::f32);
  check_floating("adamw", "gradients", gradients);
  check_count("adamw", "exp_avg", exp_avg, weights.count());
  check_count("adamw", "exp_avg_sq", exp_avg_sq, weights.count());
  check_count("adamw", "gradients", gradients, weights.count());
  if (!is_empty(rounded)) {
    check_floating("adamw", "rounded", rounded);
    check_count("adamw", "rounded", rounded, weights.count());
  }
  require(step.t >= 1, "adamw: step.t is ", step.t, ", the first step is 1");
  if (ctx.device.is_meta()) return;
  cpu::adamw(weights, rounded, exp_avg, exp_avg_sq, gradients, step);
}

}  // namespace llmtrain::ops
