// Reductions to one number on the host.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

// Sum of |x|^p in double, x of any floating-point dtype (p = infinity: the maximum; NaN propagates in
// both). The order of additions depends only on the count, never on the thread count.
double sum_of_powers(Context& ctx, TensorView x, double p);

// Sum in double, same order rule.
double sum(Context& ctx, TensorView x);

}  // namespace llmtrain::ops
