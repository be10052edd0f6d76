// Matrix products: checks and dispatch.
#include "llmtrain/ops/matmul.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void matmul(Context& ctx, TensorView out, TensorView a, TensorView b,
            MatmulOptions options) {
  check_matrix("matmul", "a", a);
  check_matrix("matmul", "b", b);
  const bool at = options.a == Transpose::yes, bt = options.b == Transpose::yes;
  const index_t m = a.shape()[at ? 1 : 0], k = a.shape()[at ? 0 : 1];
  const index_t n = b.shape()[bt ? 0 : 1];
  check_tensor("matmul", "b", b, bt ? Shape{n, k} : Shape{k, n});
  check_tensor("matmul", "out", out, Shape{m, n});
  if (ctx.device.is_meta()) return;
  cpu::matmul(out, a, b, options);
}

void linear_forward(Context& ctx, TensorView y, TensorView x, TensorView weight,
                    TensorView bias) {
  check_matrix("linear_forward", "weight", weight);
  check_matrix("linear_forward", "x", x);
  const index_t tokens = x.shape()[0], outputs = weight.shape()[0],
                inputs = weight.shape()[1];
  check_tensor("linear_forward", "x", x, Shape{tokens, inputs});
  check_tensor("linear_forward", "y", y, Shape{tokens, outputs});
  if (!is_empty(bias)) check_tensor("linear_forward", "bias", bias, Shape{outputs});
  if (ctx.device.is_meta()) return;
  cpu::linear_forward(y, x, weight, bias);
}

void linear_backward(Context& ctx, const LinearGradients& gradients, TensorView dy,
                     TensorView x, TensorView weight) {
  check_matrix("linear_backward", "weight", weight);
  check_matrix("linear_backward", "x", x);
  const index_t tokens = x.shape()[0], outputs = weight.shape()[0],
                inputs = weight.shape()[1];
  check_tensor("linear_backward", "x", x, Shape{tokens, inputs});
  check_tensor("linear_backward", "dy", dy, Shape{tokens, outputs});
  check_tensor("linear_backward", "dweight", gradients.dweight, weight.shape());
  if (!is_empty(gradients.dx))
    check_tensor("linear_backward", "dx", gradients.dx, x.shape());
  if (!is_empty(gradients.dbias)) {
    check_tensor("linear_backward", "dbias", gradients.dbias, Shape{outputs});
  }
  if (ctx.device.is_meta()) return;
  cpu::linear_backward(gradients, dy, x, weight);
}

}  // namespace llmtrain::ops
