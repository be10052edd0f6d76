// The norm of all gradients, each element once, the same bits in every ZeRO stage.
#pragma once

#include <vector>

#include "llmtrain/parallel/units.hpp"

namespace llmtrain {

// This rank's share: the sum of |g|^p over its ZeRO 1 slices (p infinite: the maximum), rows
// that tensor ranks hold copies of on the first of them only.
// Local. Not finite when a gradient is not.
double gradient_norm_partial(Context& ctx, Units& units, double p);

// The p-norm from the partials of all ranks, added in rank order.
double gradient_norm(const std::vector<double>& partials, double p);

// What gradients are multiplied by so that their norm is at most max_norm:
// min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_. 1 when max_norm is 0.
double clip_coefficient(double norm, double max_norm);

}  // namespace llmtrain
