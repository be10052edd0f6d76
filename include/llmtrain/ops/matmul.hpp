// Matrix products of row-major matrices with fused epilogues. Sums are in f32 and rounded to
// the output's dtype once.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

enum class Transpose { no, yes };
enum class Output { overwrite, accumulate };

struct MatmulOptions {
  Transpose a = Transpose::no;
  Transpose b = Transpose::no;
  Output output = Output::overwrite;
};

// out (=|+=) op(a) op(b);  out [m, n] of any floating-point dtype, op(a) [m, k] and
// op(b) [k, n] of one, none aliased.
void matmul(Context& ctx, TensorView out, TensorView a, TensorView b,
            MatmulOptions options = {});

// y = x Wt + bias;  y [tokens, out], x [tokens, in], weight [out, in], bias [out] or
// empty (count 0) for none; all of one dtype.
void linear_forward(Context& ctx, TensorView y, TensorView x, TensorView weight,
                    TensorView bias);

struct LinearGradients {
  TensorView dx;       // [tokens, in], overwritten; empty when not wanted; x's dtype
  TensorView dweight;  // [out, in], accumulated; any floating-point dtype
  TensorView dbias;    // [out], accumulated; empty for none; any floating-point dtype
};

// dx = dy W;  dweight += dyt x;  dbias += column sums of dy. dy, x, weight of one dtype.
void linear_backward(Context& ctx, const LinearGradients& gradients, TensorView dy,
                     TensorView x, TensorView weight);

}  // namespace llmtrain::ops
