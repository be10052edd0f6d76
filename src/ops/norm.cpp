// LayerNorm and RMSNorm: checks and dispatch.
#include "llmtrain/ops/norm.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void norm_forward(Context& ctx, NormKind kind, float epsilon, TensorView y,
                  TensorView statistics, const NormInput& input, TensorView weight,
                  TensorView bias) {
  constexpr const char* kOp = "norm_forward";
  check_matrix(kOp, "x", input.x);
  const Dtype dtype = input.x.dtype();
  const index_t tokens = input.x.shape()[0], width = input.x.shape()[1];
  require(width > 0, kOp, ": x has no columns");
  check_tensor(kOp, "y", y, Shape{tokens, width}, dtype);
  check_tensor(kOp, "statistics", statistics, Shape{tokens, 2}, Dtype::f32);
  check_tensor(kOp, "weight", weight, Shape{width}, dtype);
  if (kind == NormKind::layer) {
    check_tensor(kOp, "bias", bias, Shape{width}, dtype);
  } else {
    require(is_empty(bias), kOp, ": bias is given to an RMSNorm");
  }
  if (is_empty(input.delta)) {
    require(is_empty(input.residual) || tokens == 0, kOp, ": residual without delta");
  } else {
    check_tensor(kOp, "delta", input.delta, Shape{tokens, width}, dtype);
    check_tensor(kOp, "residual", input.residual, Shape{tokens, width}, dtype);
    check_dropout(kOp, input.dropout, tokens);
  }
  if (ctx.device.is_meta()) return;
  cpu::norm_forward(kind, epsilon, y, statistics, input, weight, bias);
}

void norm_backward(Context& ctx, NormKind kind, const NormGradients& gradients,
                   TensorView dy, TensorView r, TensorView statistics,
                   TensorView weight) {
  constexpr const char* kOp = "norm_backward";
  check_matrix(kOp, "r", r);
  const Dtype dtype = r.dtype();
  const index_t tokens = r.shape()[0], width = r.shape()[1];
  check_tensor(kOp, "dy", dy, Shape{tokens, width}, dtype);
  check_tensor(kOp, "dr", gradients.dr, Shape{tokens, width}, dtype);
  check_tensor(kOp, "statistics", statistics, Shape{tokens, 2}, Dtype::f32);
  check_tensor(kOp, "weight", weight, Shape{width}, dtype);
  check_floating(kOp, "dweight", gradients.dweight, Shape{width});
  if (kind == NormKind::layer) {
    check_tensor(kOp, "dbias", gradients.dbias, Shape{width}, gradients.dweight.dtype());
  } else {
    require(is_empty(gradients.dbias), kOp, ": dbias is given to an RMSNorm");
  }
  const ArenaScope scope(ctx.scratch);
  const TensorView scratch =
      ctx.scratch.allocate(cpu::norm_backward_scratch(tokens, width));
  if (ctx.device.is_meta()) return;
  cpu::norm_backward(kind, gradients, dy, r, statistics, weight, scratch);
}

}  // namespace llmtrain::ops
