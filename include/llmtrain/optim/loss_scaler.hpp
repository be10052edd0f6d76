// The scale that keeps small fp16 gradients from vanishing. It follows the overflows as
// PyTorch's GradScaler does, but never below a floor.
#pragma once

#include "llmtrain/config/config.hpp"

namespace llmtrain {

// What a checkpoint stores of it.
struct LossScale {
  double value = 1;
  std::int64_t good_steps = 0;  // since the value changed or an overflow

  bool operator==(const LossScale&) const = default;
};

// The first scale: precision.loss_scale for fp16, else 1.
LossScale first_loss_scale(const PrecisionConfig& config);

// The scale after a step. Overflow: value = max(floor, value * backoff), good_steps = 0.
// Else good_steps + 1; when that reaches the interval, value *= growth unless that were
// beyond f32, and good_steps = 0. Without fp16: unchanged.
LossScale next_loss_scale(const PrecisionConfig& config, LossScale scale, bool overflow);

// Whether an overflow at this scale is one that a smaller scale may cure.
bool can_shrink(const PrecisionConfig& config, const LossScale& scale);

}  // namespace llmtrain
