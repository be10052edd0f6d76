// y = x Wt + b, with one or several named outputs side by side in a row of y.
#pragma once

#include <string>
#include <vector>

#include "llmtrain/device/context.hpp"
#include "llmtrain/layers/parameter.hpp"

namespace llmtrain {

class Linear {
 public:
  // Columns of y that have a name of their own: its rows are <name>/weight and
  // <name>/bias.
  struct Output {
    std::string name;
    index_t width;
  };
  enum class Bias { no, yes };

  Linear(ParameterSet& set, const std::vector<Output>& outputs, index_t inputs, Bias bias,
         Split split, Initializer initializer);

  index_t inputs() const { return inputs_; }
  index_t outputs() const { return outputs_; }

  // y [tokens, outputs], x [tokens, inputs].
  void forward(Context& ctx, TensorView y, TensorView x) const;
  // dx overwritten; gradients of the parameters accumulated.
  void backward(Context& ctx, TensorView dx, TensorView dy, TensorView x) const;

 private:
  index_t inputs_, outputs_ = 0;
  Parameter weight_, bias_;
};

}  // namespace llmtrain
