// Plain elementwise operations on tensors of any floating-point dtype.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

void fill(Context& ctx, TensorView x, float value);
// y = x, rounded to y's dtype; equal counts.
void copy(Context& ctx, TensorView y, TensorView x);
// y += x in f32, rounded to y's dtype; equal counts.
void add(Context& ctx, TensorView y, TensorView x);

}  // namespace llmtrain::ops
