// LayerNorm or RMSNorm with its parameters, optionally behind a residual addition.
#pragma once

#include <string>

#include "llmtrain/layers/parameter.hpp"
#include "llmtrain/layers/pass.hpp"
#include "llmtrain/ops/norm.hpp"

namespace llmtrain {

struct NormSaved {
  TensorView input;       // what was normalised
  TensorView statistics;  // f32 [tokens, 2]
};

class Norm {
 public:
  // Rows <name>/weight (ones) and, for LayerNorm, <name>/bias (zeros).
  Norm(ParameterSet& set, const std::string& name, ops::NormKind kind, index_t width,
       float epsilon);

  // The normalised rows, saved: [tokens, width].
  TensorView forward(const Pass& pass, const ops::NormInput& input,
                     NormSaved& saved) const;
  // Accumulates into dr the gradient of what was normalised.
  void backward(const Pass& pass, TensorView dr, TensorView dy,
                const NormSaved& saved) const;

 private:
  ops::NormKind kind_;
  index_t width_;
  float epsilon_;
  Parameter weight_, bias_;
};

}  // namespace llmtrain
