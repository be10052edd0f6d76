// Dropout: checks and dispatch.
#include "llmtrain/ops/dropout.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void dropout(Context& ctx, TensorView y, TensorView x, const Dropout& dropout) {
  check_matrix("dropout", "x", x);
  check_tensor("dropout", "y", y, x.shape(), x.dtype());
  check_dropout("dropout", dropout, x.shape()[0]);
  if (ctx.device.is_meta()) return;
  cpu::dropout(y, x, dropout);
}

void add_dropout(Context& ctx, TensorView y, TensorView residual, TensorView x,
                 const Dropout& dropout) {
  check_matrix("add_dropout", "x", x);
  check_tensor("add_dropout", "residual", residual, x.shape(), x.dtype());
  check_tensor("add_dropout", "y", y, x.shape(), x.dtype());
  check_dropout("add_dropout", dropout, x.shape()[0]);
  if (ctx.device.is_meta()) return;
  cpu::add_dropout(y, residual, x, dropout);
}

}  // namespace llmtrain::ops
