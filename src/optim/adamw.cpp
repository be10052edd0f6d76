#include "llmtrain/optim/adamw.hpp"

#include "llmtrain/ops/adamw.hpp"

namespace llmtrain {

void adamw_step(Context& ctx, Units& units, const OptimizerConfig& config,
                double learning_rate, double gradient_scale, index_t t) {
  ops::AdamWStep step{.learning_rate = static_cast<float>(learning_rate),
                      .beta1 = static_cast<float>(config.beta1),
                      .beta2 = static_cast<float>(config.beta2),
                      .epsilon = static_cast<float>(config.epsilon),
                      .weight_decay = 0.0f,
                      .gradient_scale = static_cast<float>(gradient_scale),
                      .t = t};
  for (int unit = 0; unit < units.count(); ++unit) {
    const UnitSlice part = units.updated_part(unit);
    const auto update = [&](index_t begin, index_t count, double weight_decay) {
      if (count == 0) return;
      step.weight_decay = static_cast<float>(weight_decay);
      ops::adamw(
          ctx, part.weights.flat(begin, count),
          part.rounded.count() > 0 ? part.rounded.flat(begin, count) : TensorView{},
          part.exp_avg.flat(begin, count), part.exp_avg_sq.flat(begin, count),
          part.gradients.flat(begin, count), step);
    };
    const index_t decayed = part.decayed_count();
    update(0, decayed, config.weight_decay);
    update(decayed, part.count() - decayed, 0.0);
  }
  units.publish_weights();
}

}  // namespace llmtrain
