#include "llmtrain/layers/linear.hpp"

#include "llmtrain/ops/matmul.hpp"

namespace llmtrain {

Linear::Linear(ParameterSet& set, const std::vector<Output>& outputs, index_t inputs,
               Bias bias, Split split, Initializer initializer)
    : split_(split) {
  std::vector<ParameterSpec> weights, biases;
  for (const Output& output : outputs) {
    weights.push_back({.name = output.name + "/weight",
                       .shape = {output.width, inputs},
                       .initializer = initializer,
                       .decayed = true,
                       .split = split,
                       .pieces = output.pieces});
    biases.push_back({.name = output.name + "/bias",
                      .shape = {output.width},
                      .split = split == Split::column ? split : Split::none,
                      .pieces = output.pieces});
  }
  weight_ = set.declare(std::move(weights));
  if (bias == Bias::yes) bias_ = set.declare(std::move(biases));
}

void Linear::forward(const Pass& pass, TensorView y, TensorView x) const {
  // A sum over the group has the bias once.
  const bool adds_bias =
      bias_.exists() && (split_ != Split::row || pass.tensor.rank() == 0);
  ops::linear_forward(pass.ctx, y, x, weight_.weight(),
                      adds_bias ? bias_.weight() : TensorView{});
  if (split_ == Split::row) pass.tensor.all_reduce(y.flat());
}

void Linear::backward(const Pass& pass, TensorView dx, TensorView dy,
                      TensorView x) const {
  ops::linear_backward(pass.ctx,
                       {.dx = dx,
                        .dweight = weight_.gradient(),
                        .dbias = bias_.exists() ? bias_.gradient() : TensorView{}},
                       dy, x, weight_.weight());
  if (split_ == Split::column) pass.tensor.all_reduce(dx.flat());
}

}  // namespace llmtrain
