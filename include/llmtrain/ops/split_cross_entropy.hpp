// Cross-entropy where the vocabulary is cut over ranks, none of which has a whole row of
// logits. Each takes the statistics of its part, they are gathered, and every rank combines
// them: three numbers a token and rank travel, never logits (Shoeybi et al. 2019, section 3).
#pragma once

#include "llmtrain/ops/cross_entropy.hpp"

namespace llmtrain::ops {

// The columns of a rank's logits are the ids [first_id, first_id + columns); those from
// `vocabulary` (of the whole model) on are padding.
struct VocabularyPart {
  index_t first_id, vocabulary;
};

// statistics[t] = (m, sum of exp(logit - m), the label's logit), m the largest of the part's
// logits; the last is 0 where the label is ignored or not in this part; m is -infinity and the
// sum 0 where a part is nothing but padding. statistics f32 [tokens, 3], logits [tokens,
// columns] of any floating-point dtype, labels i32 [tokens].
void vocabulary_statistics(Context& ctx, TensorView statistics, TensorView logits,
                           TensorView labels, const VocabularyPart& part);

// lse[t] = log-sum-exp of the whole row, losses[t] = lse - the label's logit, 0 where the label
// is ignored. losses, lse f32 [tokens]; statistics f32 [ranks, tokens, 3], in rank order.
void combine_statistics(Context& ctx, TensorView losses, TensorView lse,
                        TensorView statistics, TensorView labels);

// Replaces the logits by their gradient, scale * (exp(logit - lse) - onehot); rows with ignored
// labels and padding columns become 0.
void vocabulary_gradient(Context& ctx, TensorView logits, TensorView labels,
                         TensorView lse, const VocabularyPart& part, float scale);

}  // namespace llmtrain::ops
