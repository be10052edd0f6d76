// How long a run lasts, from what the input file says.
#pragma once

#include <optional>
#include <string_view>

#include "llmtrain/config/config.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain {

// The optimizer steps of train.steps, train.epochs or train.tokens, whichever is set: the
// fewest that process at least that many samples or tokens. Throws Error(usage) when they
// are more than kMaximumSteps.
index_t total_steps(const TrainConfig& train, index_t samples_per_epoch,
                    index_t global_batch, index_t seq_len);

// Steps are counted in 32 bits by the random numbers.
inline constexpr index_t kMaximumSteps = 2147483647;

// Seconds of "hh:mm:ss" or "d-hh:mm:ss" (as Slurm writes limits); nothing for other text.
// Fields other than the first have two digits, minutes and seconds are below 60, hours
// after days below 24, and the sum is not 0.
std::optional<index_t> wall_time_seconds(std::string_view text);

}  // namespace llmtrain
