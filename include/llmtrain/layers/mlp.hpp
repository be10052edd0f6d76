// The feed-forward part of a block: up, activation, down. SwiGLU has a gate beside up, in
// one product.
#pragma once

#include <string>

#include "llmtrain/layers/linear.hpp"
#include "llmtrain/layers/pass.hpp"

namespace llmtrain {

enum class Activation { gelu, swiglu };

struct MlpSettings {
  index_t width, mlp_width;
  Activation activation;
  Linear::Bias bias;
  Initializer initializer, output_initializer;
};

struct MlpSaved {
  TensorView x;  // [tokens, width]
  // Of this rank's share of mlp_width:
  TensorView hidden;     // [tokens, mlp_width], for SwiGLU twice that
  TensorView activated;  // [tokens, mlp_width]
};

class Mlp {
 public:
  Mlp(ParameterSet& set, const std::string& name, const MlpSettings& settings);

  // y, x [tokens, width]; x must stay until backward.
  void forward(const Pass& pass, TensorView y, TensorView x, MlpSaved& saved) const;
  // dx overwritten.
  void backward(const Pass& pass, TensorView dx, TensorView dy,
                const MlpSaved& saved) const;

 private:
  MlpSettings settings_;
  Linear up_, down_;
};

}  // namespace llmtrain
