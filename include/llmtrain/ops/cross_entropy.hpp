// Cross-entropy of logits against labels.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

constexpr std::int32_t kIgnoredLabel = -1;

// losses[t] = logsumexp(logits[t, :vocabulary]) - logits[t, labels[t]], 0 where the label
// is kIgnoredLabel. Columns from `vocabulary` on are padding and take no part. losses f32
// [tokens]; logits [tokens, >= vocabulary] of any floating-point dtype; labels i32
// [tokens].
void cross_entropy(Context& ctx, TensorView losses, TensorView logits, TensorView labels,
                   index_t vocabulary);

// The same, and replaces the logits by their gradient, scale * (softmax - onehot); rows
// with ignored labels and padding columns become 0.
void cross_entropy_with_gradient(Context& ctx, TensorView losses, TensorView logits,
                                 TensorView labels, index_t vocabulary, float scale);

}  // namespace llmtrain::ops
