// AdamW on units.
#pragma once

#include "llmtrain/config/config.hpp"
#include "llmtrain/parallel/units.hpp"

namespace llmtrain {

// Updates what this rank updates of every unit, t-th applied step (1, 2, ...), and makes
// the new weights current on every rank. Gradients are multiplied by `gradient_scale`
// first. Collective over the units' group.
void adamw_step(Context& ctx, Units& units, const OptimizerConfig& config,
                double learning_rate, double gradient_scale, index_t t);

}  // namespace llmtrain
