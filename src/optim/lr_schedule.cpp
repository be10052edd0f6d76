#include "llmtrain/optim/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llmtrain {

namespace {

double decay(DecayShape shape, double r) {
  switch (shape) {
    case DecayShape::linear:
      return 1.0 - r;
    case DecayShape::cosine:
      return (1.0 + std::cos(std::numbers::pi * r)) / 2.0;
    case DecayShape::one_minus_sqrt:
      return 1.0 - std::sqrt(r);
    case DecayShape::exponential:
      return 2.0 * std::pow(0.5, r) - 1.0;
  }
  return 1.0;
}

// The part of (maximum - minimum) that is left at step s, after warm-up and before the
// end.
double fraction(const ScheduleConfig& schedule, index_t total_steps, index_t s) {
  const auto ratio = [&](index_t first, index_t steps) {
    return static_cast<double>(s - first) /
           static_cast<double>(std::max<index_t>(1, steps));
  };
  const index_t warmup = schedule.warmup_steps;
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return 1.0;
    case ScheduleKind::linear:
      return 1.0 - ratio(warmup, total_steps - warmup);
    case ScheduleKind::cosine: {
      const double r = ratio(warmup, total_steps - warmup);
      return std::max(
          0.0, (1.0 + std::cos(2.0 * std::numbers::pi * schedule.cycles * r)) / 2.0);
    }
    case ScheduleKind::wsd: {
      const index_t first = total_steps - schedule.decay_steps;
      return s < first ? 1.0
                       : decay(schedule.decay_shape, ratio(first, schedule.decay_steps));
    }
  }
  return 1.0;
}

}  // namespace

double learning_rate(const ScheduleConfig& schedule, double maximum, index_t total_steps,
                     index_t s) {
  if (s < schedule.warmup_steps) {
    return maximum * static_cast<double>(s + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  if (s >= total_steps) {
    return schedule.kind == ScheduleKind::constant ? maximum : schedule.minimum;
  }
  return schedule.minimum +
         (maximum - schedule.minimum) * fraction(schedule, total_steps, s);
}

}  // namespace llmtrain
