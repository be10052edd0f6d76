// metrics.csv: one row for each logged or validated step.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "llmtrain/core/types.hpp"

namespace llmtrain {

struct MetricsRow {
  index_t step = 0;                                       // steps taken
  index_t tokens = 0;                                     // labels trained on so far
  double loss = 0, gradient_norm = 0, learning_rate = 0;  // norm before clipping
  double tokens_per_second = 0, milliseconds = 0;         // of a step, since the last row
  std::optional<double> validation_loss;
};

class MetricsFile {
 public:
  // Opens `path` for appending. Rows after `resumed_step` are cut off, so that a run that goes
  // on from a checkpoint leaves one curve; 0 starts the file anew. Throws Error(io).
  MetricsFile(const std::string& path, index_t resumed_step);

  // Appends and flushes; doubles are written so that they read back exactly. Throws Error(io).
  void write(const MetricsRow& row);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

}  // namespace llmtrain
