#include "llmtrain/layers/mlp.hpp"

#include "llmtrain/ops/activation.hpp"

namespace llmtrain {

namespace {

std::vector<Linear::Output> up_outputs(const std::string& name,
                                       const MlpSettings& settings) {
  if (settings.activation == Activation::swiglu) {
    return {{name + "/gate", settings.mlp_width}, {name + "/up", settings.mlp_width}};
  }
  return {{name + "/up", settings.mlp_width}};
}

}  // namespace

Mlp::Mlp(ParameterSet& set, const std::string& name, const MlpSettings& settings)
    : settings_(settings),
      up_(set, up_outputs(name, settings), settings.width, settings.bias, Split::column,
          settings.initializer),
      down_(set, {{name + "/down", settings.width}}, settings.mlp_width, settings.bias,
            Split::row, settings.output_initializer) {}

void Mlp::forward(const Pass& pass, TensorView y, TensorView x, MlpSaved& saved) const {
  saved.x = x;
  saved.hidden = pass.save(up_.outputs());
  saved.activated = pass.save(down_.inputs());
  up_.forward(pass, saved.hidden, x);
  if (settings_.activation == Activation::swiglu) {
    ops::swiglu_forward(pass.ctx, saved.activated, saved.hidden);
  } else {
    ops::gelu_forward(pass.ctx, saved.activated, saved.hidden);
  }
  down_.forward(pass, y, saved.activated);
}

void Mlp::backward(const Pass& pass, TensorView dx, TensorView dy,
                   const MlpSaved& saved) const {
  const ArenaScope scope(pass.ctx.scratch);
  const TensorView dactivated = pass.scratch(down_.inputs());
  down_.backward(pass, dactivated, dy, saved.activated);
  TensorView dhidden = dactivated;
  if (settings_.activation == Activation::swiglu) {
    dhidden = pass.scratch(up_.outputs());
    ops::swiglu_backward(pass.ctx, dhidden, dactivated, saved.hidden);
  } else {
    ops::gelu_backward(pass.ctx, dhidden, dactivated, saved.hidden);
  }
  up_.backward(pass, dx, dhidden, saved.x);
}

}  // namespace llmtrain
