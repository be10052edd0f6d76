// y = x Wt + b, with one or several named outputs side by side in a row of y.
//
// Under tensor parallelism a rank holds a part of W (Shoeybi et al. 2019):
//   Split::column  its outputs: y is this rank's part; dx, whole, is summed over the group
//   Split::row     its inputs: x is this rank's part; y, whole, is summed over the group
#pragma once

#include <string>
#include <vector>

#include "llmtrain/layers/parameter.hpp"
#include "llmtrain/layers/pass.hpp"

namespace llmtrain {

class Linear {
 public:
  // Columns of y that have a name of their own: its rows are <name>/weight and
  // <name>/bias.
  struct Output {
    std::string name;
    index_t width;       // over all ranks
    index_t pieces = 0;  // as ParameterSpec::pieces
  };
  enum class Bias { no, yes };

  Linear(ParameterSet& set, const std::vector<Output>& outputs, index_t inputs, Bias bias,
         Split split, Initializer initializer);

  // Of this rank.
  index_t inputs() const { return weight_.shape()[1]; }
  index_t outputs() const { return weight_.shape()[0]; }

  // y [tokens, outputs], x [tokens, inputs]. Collective over the tensor group.
  void forward(const Pass& pass, TensorView y, TensorView x) const;
  // dx overwritten; gradients of the parameters accumulated. Collective likewise.
  void backward(const Pass& pass, TensorView dx, TensorView dy, TensorView x) const;

 private:
  Split split_;
  Parameter weight_, bias_;
};

}  // namespace llmtrain
