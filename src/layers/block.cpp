#include "llmtrain/layers/block.hpp"

namespace llmtrain {

Block::Block(ParameterSet& set, const std::string& name, const BlockSettings& settings)
    : width_(settings.attention.width),
      attention_dropout_(
          philox_key(settings.attention.seed, "dropout", name + "/attention/residual")),
      mlp_dropout_(
          philox_key(settings.attention.seed, "dropout", name + "/mlp/residual")),
      attention_norm_(set, name + "/attention_norm", settings.norm, width_,
                      settings.norm_epsilon),
      attention_(set, name + "/attention", settings.attention),
      mlp_norm_(set, name + "/mlp_norm", settings.norm, width_, settings.norm_epsilon),
      mlp_(set, name + "/mlp", settings.mlp) {}

TensorView Block::forward(const Pass& pass, TensorView x, BlockSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView branch = pass.scratch(width_);

  const TensorView x_normed =
      attention_norm_.forward(pass, {.x = x}, saved.attention_norm);
  attention_.forward(pass, branch, x_normed, saved.attention);

  const TensorView middle = pass.save(width_);
  const TensorView middle_normed =
      mlp_norm_.forward(pass,
                        {.x = x,
                         .delta = branch,
                         .residual = middle,
                         .dropout = pass.dropout_with(attention_dropout_)},
                        saved.mlp_norm);
  mlp_.forward(pass, branch, middle_normed, saved.mlp);

  const TensorView y = pass.save(width_);
  ops::add_dropout(pass.ctx, y, middle, branch, pass.dropout_with(mlp_dropout_));
  return y;
}

void Block::backward(const Pass& pass, TensorView dx, const BlockSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dnormed = pass.scratch(width_);

  mlp_.backward(pass, dnormed, pass.undrop(dx, mlp_dropout_), saved.mlp);
  mlp_norm_.backward(pass, dx, dnormed, saved.mlp_norm);

  attention_.backward(pass, dnormed, pass.undrop(dx, attention_dropout_),
                      saved.attention);
  attention_norm_.backward(pass, dx, dnormed, saved.attention_norm);
}

}  // namespace llmtrain
