// Plain elementwise operations: checks and dispatch.
#include "llmtrain/ops/elementwise.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void fill(Context& ctx, TensorView x, float value) {
  check_floating("fill", "x", x);
  if (ctx.device.is_meta()) return;
  cpu::fill(x, value);
}

void copy(Context& ctx, TensorView y, TensorView x) {
  check_floating("copy", "x", x);
  check_floating("copy", "y", y);
  check_count("copy", "y", y, x.count());
  if (ctx.device.is_meta()) return;
  cpu::copy(y, x);
}

void add(Context& ctx, TensorView y, TensorView x) {
  check_floating("add", "x", x);
  check_floating("add", "y", y);
  check_count("add", "y", y, x.count());
  if (ctx.device.is_meta()) return;
  cpu::add(y, x);
}

}  // namespace llmtrain::ops
