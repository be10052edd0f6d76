// Plain elementwise f32 operations.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

void fill(Context& ctx, TensorView x, float value);
void copy(Context& ctx, TensorView y, TensorView x);  // equal counts
void add(Context& ctx, TensorView y, TensorView x);   // y += x, equal counts

}  // namespace llmtrain::ops
