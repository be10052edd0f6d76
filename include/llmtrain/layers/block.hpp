// A pre-norm transformer block:
//   m = x + dropout(attention(norm(x)));   y = m + dropout(mlp(norm(m)))
#pragma once

#include <string>

#include "llmtrain/layers/attention.hpp"
#include "llmtrain/layers/mlp.hpp"
#include "llmtrain/layers/norm.hpp"

namespace llmtrain {

struct BlockSettings {
  ops::NormKind norm;
  float norm_epsilon;
  AttentionSettings attention;
  MlpSettings mlp;
};

struct BlockSaved {
  NormSaved attention_norm, mlp_norm;
  AttentionSaved attention;
  MlpSaved mlp;
};

class Block {
 public:
  // Rows under `name` ("blocks/003").
  Block(ParameterSet& set, const std::string& name, const BlockSettings& settings);

  // y, saved; x [tokens, width] must stay until backward.
  TensorView forward(const Pass& pass, TensorView x, BlockSaved& saved) const;
  // dx: gradient of y on entry, of x on return.
  void backward(const Pass& pass, TensorView dx, const BlockSaved& saved) const;

 private:
  index_t width_;
  PhiloxKey attention_dropout_, mlp_dropout_;
  Norm attention_norm_;
  Attention attention_;
  Norm mlp_norm_;
  Mlp mlp_;
};

}  // namespace llmtrain
