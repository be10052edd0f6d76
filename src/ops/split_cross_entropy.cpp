// Cross-entropy over a split vocabulary: checks and dispatch.
#include "llmtrain/ops/split_cross_entropy.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {
namespace {

void check(const char* op, TensorView logits, TensorView labels,
           const VocabularyPart& part) {
  check_matrix(op, "logits", logits);
  check_tensor(op, "labels", labels, Shape{logits.shape()[0]}, Dtype::i32);
  require(part.first_id >= 0 && part.vocabulary > 0, op, ": part starts at id ",
          part.first_id, " of ", part.vocabulary);
}

}  // namespace

void vocabulary_statistics(Context& ctx, TensorView statistics, TensorView logits,
                           TensorView labels, const VocabularyPart& part) {
  check("vocabulary_statistics", logits, labels, part);
  check_tensor("vocabulary_statistics", "statistics", statistics,
               Shape{logits.shape()[0], 3}, Dtype::f32);
  if (ctx.device.is_meta()) return;
  cpu::vocabulary_statistics(statistics, logits, labels, part);
}

void combine_statistics(Context& ctx, TensorView losses, TensorView lse,
                        TensorView statistics, TensorView labels) {
  constexpr const char* kOp = "combine_statistics";
  const index_t tokens = labels.count();
  check_tensor(kOp, "labels", labels, Shape{tokens}, Dtype::i32);
  check_tensor(kOp, "losses", losses, Shape{tokens}, Dtype::f32);
  check_tensor(kOp, "lse", lse, Shape{tokens}, Dtype::f32);
  check_dtype(kOp, "statistics", statistics, Dtype::f32);
  require(statistics.shape().rank() == 3, kOp, ": statistics has shape ",
          statistics.shape().text());
  check_tensor(kOp, "statistics", statistics, Shape{statistics.shape()[0], tokens, 3},
               Dtype::f32);
  if (ctx.device.is_meta()) return;
  cpu::combine_statistics(losses, lse, statistics, labels);
}

void vocabulary_gradient(Context& ctx, TensorView logits, TensorView labels,
                         TensorView lse, const VocabularyPart& part, float scale) {
  check("vocabulary_gradient", logits, labels, part);
  check_tensor("vocabulary_gradient", "lse", lse, Shape{logits.shape()[0]}, Dtype::f32);
  if (ctx.device.is_meta()) return;
  cpu::vocabulary_gradient(logits, labels, lse, part, scale);
}

}  // namespace llmtrain::ops
