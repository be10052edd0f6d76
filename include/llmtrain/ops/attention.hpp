// Causal grouped-query attention in tiles with an online softmax; the [seq, seq] matrix
// is never stored. Dao et al. 2022 (FlashAttention), algorithms 1 and 4. Activations of a
// call have one floating-point dtype; scores, probabilities and sums are f32.
#pragma once

#include "llmtrain/ops/dropout.hpp"

namespace llmtrain::ops {

// Legend: B sequences, T tokens each, H query heads, G key/value heads (H % G == 0; query
// head h reads key/value head h / (H / G)), D head_dim. Scores are scaled by 1 / sqrt(D).
struct AttentionShape {
  index_t sequences, seq_len, heads, kv_heads, head_dim;
  index_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
};

// Token t of a sequence sees tokens [document_starts[t], t] of it.
struct AttentionMask {
  TensorView document_starts;  // i32 [B, T], each in [0, t]; empty: plain causal
};

// out [B*T, H*D]; lse f32 [B*H, T] log-sum-exp of the scaled scores, for the backward pass;
// qkv [B*T, (H + 2G) * D]: a row holds q of all heads, k of all, v of all.
// Dropout acts on the probabilities: element e = (h * T + query) * T + key.
void attention_forward(Context& ctx, TensorView out, TensorView lse, TensorView qkv,
                       const AttentionShape& shape, const AttentionMask& mask,
                       const Dropout& dropout);

// dqkv overwritten, shape of qkv. Deterministic.
void attention_backward(Context& ctx, TensorView dqkv, TensorView dout, TensorView qkv,
                        TensorView out, TensorView lse, const AttentionShape& shape,
                        const AttentionMask& mask, const Dropout& dropout);

}  // namespace llmtrain::ops
