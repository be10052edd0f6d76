// Token and learned position embeddings. Activations and tables of a forward pass have one
// floating-point dtype, as have the tables' gradients of a backward pass.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

// y[t] = tokens_table[ids[t]] + positions_table[t % seq_len];  y [tokens, width], ids i32
// [tokens] in [0, rows of tokens_table) (the data layer has checked them), tokens_table
// [vocabulary, width], positions_table [>= seq_len, width] or empty for none.
void embedding_forward(Context& ctx, TensorView y, TensorView ids,
                       TensorView tokens_table, TensorView positions_table,
                       index_t seq_len);

// Accumulates both tables' gradients (dpositions empty for none). The tokens of a row are
// added in order in f32, and the sum is rounded once.
void embedding_backward(Context& ctx, TensorView dtokens, TensorView dpositions,
                        TensorView dy, TensorView ids, index_t seq_len);

}  // namespace llmtrain::ops
