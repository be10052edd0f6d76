#include "llmtrain/layers/embedding.hpp"

#include "llmtrain/ops/embedding.hpp"

namespace llmtrain {

ParameterSpec token_table(const EmbeddingSettings& settings) {
  return {.name = "embedding/tokens/weight",
          .shape = {settings.vocabulary, settings.width},
          .initializer = settings.initializer,
          .decayed = true,
          .split = Split::vocabulary,
          .tied_over_pipeline = settings.tied_over_pipeline,
          .padded_rows = settings.padded_vocabulary};
}

Embedding::Embedding(ParameterSet& set, const EmbeddingSettings& settings)
    : width_(settings.width),
      dropout_key_(philox_key(settings.seed, "dropout", "embedding")) {
  tokens_ = set.declare({token_table(settings)});
  first_id_ = set.tensor().rank * tokens_.shape()[0];
  if (settings.positions > 0) {
    positions_ = set.declare({{.name = "embedding/positions/weight",
                               .shape = {settings.positions, width_},
                               .initializer = settings.initializer,
                               .decayed = true}});
  }
}

TensorView Embedding::forward(const Pass& pass, TensorView ids) const {
  const TensorView y = pass.save(width_);
  // The sum over the group has the positions once.
  const bool adds_positions = positions_.exists() && pass.tensor.rank() == 0;
  ops::embedding_forward(pass.ctx, y, ids.flat(), tokens_.weight(),
                         adds_positions ? positions_.weight() : TensorView{},
                         pass.seq_len, first_id_);
  pass.tensor.all_reduce(y.flat());
  ops::dropout(pass.ctx, y, y, pass.dropout_with(dropout_key_));
  return y;
}

void Embedding::backward(const Pass& pass, TensorView dy, TensorView ids) const {
  const ArenaScope scope(pass.ctx.scratch);
  ops::embedding_backward(pass.ctx, tokens_.gradient(),
                          positions_.exists() ? positions_.gradient() : TensorView{},
                          pass.undrop(dy, dropout_key_), ids.flat(), pass.seq_len,
                          first_id_);
}

}  // namespace llmtrain
