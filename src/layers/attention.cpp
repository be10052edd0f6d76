#include "llmtrain/layers/attention.hpp"

#include <algorithm>

namespace llmtrain {

Attention::Attention(ParameterSet& set, const std::string& name,
                     const AttentionSettings& settings)
    : settings_(settings),
      tensor_(set.tensor()),
      heads_(settings.heads / tensor_.size),
      kv_heads_(std::max<index_t>(1, settings.kv_heads / tensor_.size)),
      dropout_key_(philox_key(settings.seed, "dropout", name)),
      qkv_(set,
           {{name + "/q", settings.width},
            {name + "/k", settings.kv_heads * settings.head_dim(), settings.kv_heads},
            {name + "/v", settings.kv_heads * settings.head_dim(), settings.kv_heads}},
           settings.width, settings.bias, Split::column, settings.initializer),
      output_(set, {{name + "/output", settings.width}}, settings.width, settings.bias,
              Split::row, settings.output_initializer) {}

ops::AttentionShape Attention::shape(const Pass& pass) const {
  return {.sequences = pass.sequences,
          .seq_len = pass.seq_len,
          .heads = heads_,
          .kv_heads = kv_heads_,
          .head_dim = settings_.head_dim(),
          .first_head = tensor_.rank * heads_};
}

void Attention::rotate(const Pass& pass, TensorView qkv,
                       ops::RopeDirection direction) const {
  if (settings_.rope_table.count() == 0) return;
  ops::rope(pass.ctx, qkv, settings_.rope_table,
            {.heads = heads_ + kv_heads_,
             .head_dim = settings_.head_dim(),
             .seq_len = pass.seq_len},
            direction);
}

void Attention::forward(const Pass& pass, TensorView y, TensorView x,
                        AttentionSaved& saved) const {
  saved.x = x;
  saved.qkv = pass.save(qkv_.outputs());
  saved.attended = pass.save(output_.inputs());
  saved.logsumexp = pass.ctx.saved.allocate({pass.sequences * heads_, pass.seq_len});
  qkv_.forward(pass, saved.qkv, x);
  rotate(pass, saved.qkv, ops::RopeDirection::forward);
  ops::attention_forward(pass.ctx, saved.attended, saved.logsumexp, saved.qkv,
                         shape(pass), pass.mask, pass.dropout_with(dropout_key_));
  output_.forward(pass, y, saved.attended);
}

void Attention::backward(const Pass& pass, TensorView dx, TensorView dy,
                         const AttentionSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dattended = pass.scratch(output_.inputs());
  output_.backward(pass, dattended, dy, saved.attended);
  const TensorView dqkv = pass.scratch(qkv_.outputs());
  ops::attention_backward(pass.ctx, dqkv, dattended, saved.qkv, saved.attended,
                          saved.logsumexp, shape(pass), pass.mask,
                          pass.dropout_with(dropout_key_));
  rotate(pass, dqkv, ops::RopeDirection::backward);
  qkv_.backward(pass, dx, dqkv, saved.x);
}

}  // namespace llmtrain
