// The end of the model: final norm, logits, cross-entropy. The logits exist for a chunk
// of tokens at a time and become their own gradient in place. A tensor-parallel rank has a range
// of the vocabulary's columns; no rank ever sees the others' logits.
#pragma once

#include "llmtrain/layers/norm.hpp"

namespace llmtrain {

struct LossHeadSettings {
  ops::NormKind norm;
  float norm_epsilon;
  index_t width, vocabulary, padded_vocabulary;
  Initializer initializer;
};

class LossHead {
 public:
  // Rows final_norm/... and, unless `tied` exists, head/weight. A tied weight is the
  // embedding's row: it must be bound whenever the head computes.
  LossHead(ParameterSet& set, const LossHeadSettings& settings, const Parameter& tied);

  // The sum over tokens of the cross-entropy, with the gradient of scale times it in dx
  // (overwritten) and in the parameters (accumulated). x, dx [tokens, width]; labels i32
  // [sequences, seq_len].
  double forward_backward(const Pass& pass, TensorView dx, TensorView x,
                          TensorView labels, float scale) const;
  // The sum alone.
  double evaluate(const Pass& pass, TensorView x, TensorView labels) const;
  // Logits of the last token: f32 [vocabulary], written to `out`.
  void last_logits(const Pass& pass, TensorView out, TensorView x) const;

 private:
  struct Gradient {
    TensorView dx;
    float scale;
  };
  // Without a gradient the losses alone.
  double sum_of_losses(const Pass& pass, TensorView x, TensorView labels,
                       const Gradient* gradient) const;
  void chunk_losses(const Pass& pass, TensorView losses, TensorView logits,
                    TensorView labels, const Gradient* gradient) const;
  // Of this rank's logits, padding included.
  index_t columns() const { return weight_.shape()[0]; }
  index_t chunk_tokens(const Pass& pass) const;

  LossHeadSettings settings_;
  Norm norm_;
  Parameter weight_;
};

}  // namespace llmtrain
