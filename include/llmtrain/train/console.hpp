// The lines of a run as people read them: banner, steps, summary.
#pragma once

#include <string>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/config/config.hpp"
#include "llmtrain/core/log.hpp"
#include "llmtrain/train/engine.hpp"

namespace llmtrain {

// "00:03:21", with days in front when there are any.
std::string duration(double seconds);
// "1.23 GiB", "456 MiB".
std::string memory(index_t bytes);

// Parameters and arithmetic of the whole model, and the memory by use of the rank that
// allocates most in a job of that shape.
void print_model(Log& log, const Config& config, const GridShape& shape);

struct StepLine {
  index_t step, total_steps;
  double loss, gradient_norm, learning_rate;
  double tokens_per_second, milliseconds;
  double peak_share;  // of the measured matrix rate of all ranks, 0 to 1
  double seconds_left;
};
// Stable columns; the norm is the one before clipping.
std::string step_line(const StepLine& line);

// A phase of the run with this rank's seconds.
struct Phase {
  const char* name;
  double seconds;
};
// Minimum, mean and maximum over the ranks, and which rank was slowest. Collective; speaks on
// the log's rank.
void print_phases(Log& log, Communicator& world, const std::vector<Phase>& phases,
                  double wall_seconds);

// Resident memory of this process now, and its peak; from /proc.
index_t resident_bytes();
index_t peak_resident_bytes();

}  // namespace llmtrain
