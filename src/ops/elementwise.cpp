// Plain elementwise f32 operations: checks and dispatch.
#include "llmtrain/ops/elementwise.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void fill(Context& ctx, TensorView x, float value) {
  check_dtype("fill", "x", x, Dtype::f32);
  if (ctx.device.is_meta()) return;
  cpu::fill(x, value);
}

void copy(Context& ctx, TensorView y, TensorView x) {
  check_dtype("copy", "x", x, Dtype::f32);
  check_count("copy", "y", y, x.count());
  if (ctx.device.is_meta()) return;
  cpu::copy(y, x);
}

void add(Context& ctx, TensorView y, TensorView x) {
  check_dtype("add", "x", x, Dtype::f32);
  check_count("add", "y", y, x.count());
  if (ctx.device.is_meta()) return;
  cpu::add(y, x);
}

}  // namespace llmtrain::ops
