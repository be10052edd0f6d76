// Token and learned position embeddings.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

// y[t] = tokens_table[ids[t]] + positions_table[t % seq_len];  y [tokens, width], ids i32
// [tokens] in [0, rows of tokens_table) (the data layer has checked them), tokens_table
// [vocabulary, width], positions_table [>= seq_len, width] or empty for none.
void embedding_forward(Context& ctx, TensorView y, TensorView ids,
                       TensorView tokens_table, TensorView positions_table,
                       index_t seq_len);

// Accumulates both tables' gradients (dpositions empty for none); deterministic: tokens
// are added in order.
void embedding_backward(Context& ctx, TensorView dtokens, TensorView dpositions,
                        TensorView dy, TensorView ids, index_t seq_len);

}  // namespace llmtrain::ops
