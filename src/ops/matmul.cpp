// Matrix products: checks and dispatch.
#include "llmtrain/ops/matmul.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {
namespace {

// Arguments have been checked.
void multiply(Context& ctx, TensorView out, TensorView a, TensorView b, TensorView bias,
              MatmulOptions options) {
  const ArenaScope scope(ctx.scratch);
  const TensorView scratch = ctx.scratch.allocate(cpu::matmul_scratch(out, a, options));
  if (ctx.device.is_meta()) return;
  cpu::matmul(out, a, b, bias, options, scratch);
}

}  // namespace

void matmul(Context& ctx, TensorView out, TensorView a, TensorView b,
            MatmulOptions options) {
  check_matrix("matmul", "a", a);
  check_matrix("matmul", "b", b);
  const bool at = options.a == Transpose::yes, bt = options.b == Transpose::yes;
  const index_t m = a.shape()[at ? 1 : 0], k = a.shape()[at ? 0 : 1];
  const index_t n = b.shape()[bt ? 0 : 1];
  check_tensor("matmul", "b", b, bt ? Shape{n, k} : Shape{k, n}, a.dtype());
  check_floating("matmul", "out", out, Shape{m, n});
  multiply(ctx, out, a, b, {}, options);
}

void linear_forward(Context& ctx, TensorView y, TensorView x, TensorView weight,
                    TensorView bias) {
  check_matrix("linear_forward", "weight", weight);
  check_matrix("linear_forward", "x", x);
  const Dtype dtype = x.dtype();
  const index_t tokens = x.shape()[0], outputs = weight.shape()[0],
                inputs = weight.shape()[1];
  check_dtype("linear_forward", "weight", weight, dtype);
  check_tensor("linear_forward", "x", x, Shape{tokens, inputs}, dtype);
  check_tensor("linear_forward", "y", y, Shape{tokens, outputs}, dtype);
  if (!is_empty(bias))
    check_tensor("linear_forward", "bias", bias, Shape{outputs}, dtype);
  multiply(ctx, y, x, weight, bias, {.b = Transpose::yes});
}

void linear_backward(Context& ctx, const LinearGradients& gradients, TensorView dy,
                     TensorView x, TensorView weight) {
  constexpr const char* kOp = "linear_backward";
  check_matrix(kOp, "weight", weight);
  check_matrix(kOp, "x", x);
  const Dtype dtype = x.dtype();
  const index_t tokens = x.shape()[0], outputs = weight.shape()[0],
                inputs = weight.shape()[1];
  check_dtype(kOp, "weight", weight, dtype);
  check_tensor(kOp, "x", x, Shape{tokens, inputs}, dtype);
  check_tensor(kOp, "dy", dy, Shape{tokens, outputs}, dtype);
  check_floating(kOp, "dweight", gradients.dweight, weight.shape());
  if (!is_empty(gradients.dx)) check_tensor(kOp, "dx", gradients.dx, x.shape(), dtype);
  if (!is_empty(gradients.dbias)) {
    check_floating(kOp, "dbias", gradients.dbias, Shape{outputs});
  }
  if (!is_empty(gradients.dx)) multiply(ctx, gradients.dx, dy, weight, {}, {});
  multiply(ctx, gradients.dweight, dy, x, {},
           {.a = Transpose::yes, .output = Output::accumulate});
  if (is_empty(gradients.dbias) || ctx.device.is_meta()) return;
  cpu::add_column_sums(gradients.dbias, dy);
}

}  // namespace llmtrain::ops
