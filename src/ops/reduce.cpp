// Reductions: checks and dispatch.
#include "llmtrain/ops/reduce.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

double sum_of_powers(Context& ctx, TensorView x, double p) {
  check_floating("sum_of_powers", "x", x);
  require(p > 0.0, "sum_of_powers: p is ", p, ", not positive");
  const ArenaScope scope(ctx.scratch);
  const TensorView scratch = ctx.scratch.allocate(cpu::reduce_scratch(x.count()));
  if (ctx.device.is_meta()) return 0.0;
  return cpu::sum_of_powers(x, p, scratch);
}

double sum(Context& ctx, TensorView x) {
  check_floating("sum", "x", x);
  const ArenaScope scope(ctx.scratch);
  const TensorView scratch = ctx.scratch.allocate(cpu::reduce_scratch(x.count()));
  if (ctx.device.is_meta()) return 0.0;
  return cpu::sum(x, scratch);
}

}  // namespace llmtrain::ops
