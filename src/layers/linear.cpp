#include "llmtrain/layers/linear.hpp"

#include "llmtrain/ops/matmul.hpp"

namespace llmtrain {

Linear::Linear(ParameterSet& set, const std::vector<Output>& outputs, index_t inputs,
               Bias bias, Split split, Initializer initializer)
    : inputs_(inputs) {
  std::vector<ParameterSpec> weights, biases;
  for (const Output& output : outputs) {
    outputs_ += output.width;
    weights.push_back({.name = output.name + "/weight",
                       .shape = {output.width, inputs},
                       .initializer = initializer,
                       .decayed = true,
                       .split = split});
    biases.push_back({.name = output.name + "/bias",
                      .shape = {output.width},
                      // A row-split product is summed before its bias is added, once.
                      .split = split == Split::column ? split : Split::none});
  }
  weight_ = set.declare(std::move(weights));
  if (bias == Bias::yes) bias_ = set.declare(std::move(biases));
}

void Linear::forward(Context& ctx, TensorView y, TensorView x) const {
  ops::linear_forward(ctx, y, x, weight_.weight(),
                      bias_.exists() ? bias_.weight() : TensorView{});
}

void Linear::backward(Context& ctx, TensorView dx, TensorView dy, TensorView x) const {
  ops::linear_backward(ctx,
                       {.dx = dx,
                        .dweight = weight_.gradient(),
                        .dbias = bias_.exists() ? bias_.gradient() : TensorView{}},
                       dy, x, weight_.weight());
}

}  // namespace llmtrain
