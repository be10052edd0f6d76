// One micro-batch on its way through the layers.
#pragma once

#include "llmtrain/ops/attention.hpp"

namespace llmtrain {

struct Pass {
  Context& ctx;
  Dtype dtype;  // of activations and their gradients
  index_t sequences, seq_len;
  ops::AttentionMask mask;
  // Template of every dropout of the pass: probability (0 in evaluation), step,
  // positions.
  ops::Dropout dropout;

  index_t tokens() const { return sequences * seq_len; }
  ops::Dropout dropout_with(PhiloxKey key) const {
    ops::Dropout keyed = dropout;
    keyed.key = key;
    return keyed;
  }
  // [tokens, width] that the backward pass reads.
  TensorView save(index_t width) const {
    return ctx.saved.allocate({tokens(), width}, dtype);
  }
  // [tokens, width] until the caller's ArenaScope ends.
  TensorView scratch(index_t width) const {
    return ctx.scratch.allocate({tokens(), width}, dtype);
  }
  // The gradient before a dropout, given the one behind it: `dy` itself when it is off,
  // else new scratch.
  TensorView undrop(TensorView dy, PhiloxKey key) const;
};

}  // namespace llmtrain
