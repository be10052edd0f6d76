#include "llmtrain/layers/norm.hpp"

namespace llmtrain {

Norm::Norm(ParameterSet& set, const std::string& name, ops::NormKind kind, index_t width,
           float epsilon)
    : kind_(kind), width_(width), epsilon_(epsilon) {
  weight_ = set.declare({{.name = name + "/weight",
                          .shape = {width},
                          .initializer = {Initializer::Kind::ones}}});
  if (kind == ops::NormKind::layer) {
    bias_ = set.declare({{.name = name + "/bias", .shape = {width}}});
  }
}

TensorView Norm::forward(const Pass& pass, const ops::NormInput& input,
                         NormSaved& saved) const {
  const TensorView y = pass.save(width_);
  saved.statistics = pass.ctx.saved.allocate({pass.tokens(), 2});
  saved.input = input.delta.count() > 0 ? input.residual : input.x;
  ops::norm_forward(pass.ctx, kind_, epsilon_, y, saved.statistics, input,
                    weight_.weight(), bias_.exists() ? bias_.weight() : TensorView{});
  return y;
}

void Norm::backward(const Pass& pass, TensorView dr, TensorView dy,
                    const NormSaved& saved) const {
  ops::norm_backward(pass.ctx, kind_,
                     {.dr = dr,
                      .dweight = weight_.gradient(),
                      .dbias = bias_.exists() ? bias_.gradient() : TensorView{}},
                     dy, saved.input, saved.statistics, weight_.weight());
}

}  // namespace llmtrain
