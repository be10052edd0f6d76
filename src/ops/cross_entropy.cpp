// Cross-entropy: checks and dispatch.
#include "llmtrain/ops/cross_entropy.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {
namespace {

void check(const char* op, TensorView losses, TensorView logits, TensorView labels,
           index_t vocabulary) {
  check_matrix(op, "logits", logits);
  const index_t tokens = logits.shape()[0];
  check_tensor(op, "losses", losses, Shape{tokens}, Dtype::f32);
  check_tensor(op, "labels", labels, Shape{tokens}, Dtype::i32);
  require(vocabulary > 0 && vocabulary <= logits.shape()[1], op, ": vocabulary is ",
          vocabulary, ", logits have ", logits.shape()[1], " columns");
}

}  // namespace

void cross_entropy(Context& ctx, TensorView losses, TensorView logits, TensorView labels,
                   index_t vocabulary) {
  check("cross_entropy", losses, logits, labels, vocabulary);
  if (ctx.device.is_meta()) return;
  cpu::cross_entropy(losses, logits, labels, vocabulary);
}

void cross_entropy_with_gradient(Context& ctx, TensorView losses, TensorView logits,
                                 TensorView labels, index_t vocabulary, float scale) {
  check("cross_entropy_with_gradient", losses, logits, labels, vocabulary);
  if (ctx.device.is_meta()) return;
  cpu::cross_entropy_with_gradient(losses, logits, labels, vocabulary, scale);
}

}  // namespace llmtrain::ops
