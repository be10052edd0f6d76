// Token embedding, with learned positions where the family has them. A tensor-parallel rank
// holds a range of the padded vocabulary's rows; the activations are summed over the group.
#pragma once

#include "llmtrain/layers/parameter.hpp"
#include "llmtrain/layers/pass.hpp"

namespace llmtrain {

struct EmbeddingSettings {
  index_t vocabulary, padded_vocabulary, width;
  index_t positions;                // 0: no learned positions
  bool tied_over_pipeline = false;  // as ParameterSpec's
  Initializer initializer;
  std::uint64_t seed;  // of dropout
};

// The row embedding/tokens/weight; a tied head that has no embedding beside it keeps a copy.
ParameterSpec token_table(const EmbeddingSettings& settings);

class Embedding {
 public:
  // Rows embedding/tokens/weight and embedding/positions/weight.
  Embedding(ParameterSet& set, const EmbeddingSettings& settings);

  // [tokens, width], saved; ids i32 [sequences, seq_len].
  TensorView forward(const Pass& pass, TensorView ids) const;
  void backward(const Pass& pass, TensorView dy, TensorView ids) const;

  // [padded vocabulary of this rank, width]: what a tied head reads.
  const Parameter& tokens() const { return tokens_; }

 private:
  index_t width_;
  PhiloxKey dropout_key_;
  Parameter tokens_, positions_;
  index_t first_id_;  // of this rank's rows
};

}  // namespace llmtrain
