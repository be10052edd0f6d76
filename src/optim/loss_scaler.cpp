#include "llmtrain/optim/loss_scaler.hpp"

#include <algorithm>
#include <limits>

namespace llmtrain {

LossScale first_loss_scale(const PrecisionConfig& config) {
  return {.value = config.dtype == Precision::fp16 ? config.loss_scale : 1.0};
}

LossScale next_loss_scale(const PrecisionConfig& config, LossScale scale, bool overflow) {
  if (config.dtype != Precision::fp16) return scale;
  if (overflow) {
    return {.value = std::max(config.loss_scale_minimum,
                              scale.value * config.loss_scale_backoff)};
  }
  scale.good_steps += 1;
  if (scale.good_steps < config.loss_scale_interval) return scale;
  const double grown = scale.value * config.loss_scale_growth;
  return {.value = grown <= std::numeric_limits<float>::max() ? grown : scale.value};
}

bool can_shrink(const PrecisionConfig& config, const LossScale& scale) {
  return config.dtype == Precision::fp16 && scale.value > config.loss_scale_minimum;
}

}  // namespace llmtrain
