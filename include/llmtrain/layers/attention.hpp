// Causal self-attention: q, k, v projections as one product, rotary positions where the
// family has them, attention, output projection.
#pragma once

#include <string>

#include "llmtrain/layers/linear.hpp"
#include "llmtrain/layers/pass.hpp"
#include "llmtrain/ops/rope.hpp"

namespace llmtrain {

struct AttentionSettings {
  index_t width, heads, kv_heads;
  Linear::Bias bias;
  Initializer initializer, output_initializer;
  TensorView rope_table;  // [positions, head_dim], borrowed; empty: no rotary positions
  std::uint64_t seed;     // of dropout

  index_t head_dim() const { return width / heads; }
};

struct AttentionSaved {
  TensorView x;          // [tokens, width]
  TensorView qkv;        // [tokens, (heads + 2 kv_heads) head_dim], rotated
  TensorView attended;   // [tokens, width]
  TensorView logsumexp;  // f32 [sequences * heads, seq_len]
};

class Attention {
 public:
  Attention(ParameterSet& set, const std::string& name,
            const AttentionSettings& settings);

  // y, x [tokens, width]; x must stay until backward.
  void forward(const Pass& pass, TensorView y, TensorView x, AttentionSaved& saved) const;
  // dx overwritten.
  void backward(const Pass& pass, TensorView dx, TensorView dy,
                const AttentionSaved& saved) const;

 private:
  ops::AttentionShape shape(const Pass& pass) const;
  void rotate(const Pass& pass, TensorView qkv, ops::RopeDirection direction) const;

  AttentionSettings settings_;
  PhiloxKey dropout_key_;
  Linear qkv_, output_;
};

}  // namespace llmtrain
