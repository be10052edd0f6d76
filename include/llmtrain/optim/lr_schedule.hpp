// The learning rate as a pure function of the step (docs/input.md has the formulas).
#pragma once

#include "llmtrain/config/config.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain {

// The rate of step s = 0, 1, ... of `total_steps`, for the maximum `maximum`:
//   s < W            maximum (s + 1) / W                              (W warm-up steps)
//   s >= total       minimum (constant: maximum)
//   linear, cosine   minimum + (maximum - minimum) f(r), r = (s - W) / (total - W),
//                    f = 1 - r, or max(0, (1 + cos(2 pi cycles r)) / 2)
//   wsd              maximum until total - D, then by decay_shape over the last D steps,
//                    r = (s - (total - D)) / D
double learning_rate(const ScheduleConfig& schedule, double maximum, index_t total_steps,
                     index_t s);

}  // namespace llmtrain
