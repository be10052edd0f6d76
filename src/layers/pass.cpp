#include "llmtrain/layers/pass.hpp"

namespace llmtrain {

TensorView Pass::undrop(TensorView dy, PhiloxKey key) const {
  if (dropout.probability == 0.0f) return dy;
  const TensorView dx = ctx.scratch.allocate(dy.shape(), dtype);
  ops::dropout(ctx, dx, dy, dropout_with(key));
  return dx;
}

}  // namespace llmtrain
