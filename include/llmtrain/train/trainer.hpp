// A run: steps until the end or a stop request, with logging, validation, checkpoints.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "llmtrain/core/error.hpp"
#include "llmtrain/core/log.hpp"
#include "llmtrain/core/timer.hpp"
#include "llmtrain/data/loader.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "llmtrain/optim/loss_scaler.hpp"
#include "llmtrain/train/engine.hpp"
#include "llmtrain/train/metrics.hpp"
#include "llmtrain/train/stop_requests.hpp"

namespace llmtrain {

// What the trainer is told about the program around it.
struct RunDescription {
  std::string resolved_input;  // stored in checkpoints
  std::string version;
  std::string hosts;  // ranks, threads and their hosts
  index_t total_steps = 0;
  double wall_seconds = 0;  // 0: no limit
  Timer started;            // of the process, for the wall-time limit
};

// All ranks construct it and call run(): collective over the grid's world.
class Trainer {
 public:
  // Allocates, resumes from the checkpoint that the configuration names, opens metrics.csv.
  // Everything passed by reference must outlive it. Throws Error as its parts do, and
  // Error(usage) when the checkpoint does not go with the input (other data, seed, or a data
  // order that needs another number of ranks).
  Trainer(const Config& config, const RunDescription& description, ProcessGrid& grid,
          const data::Datasets& datasets, StopRequests& requests, Log& log);
  ~Trainer();

  // finished or stopped_early. Throws Error(numerics) after optimizer.max_skipped non-finite
  // steps in a row, Error(io) after checkpoint.max_failures failed saves in a row.
  Status run();

 private:
  void resume();
  void check_matches(const io::Progress& saved) const;
  StepOutcome train_step();
  void after_step(const StepOutcome& outcome);
  void count_outcome(const StepOutcome& outcome);
  void set_loss_scale(const LossScale& scale);
  void log_step(const StepOutcome& outcome, std::optional<double> validation_loss);
  void write_metrics(const MetricsRow& row);
  std::optional<double> validate();
  void save();
  void finish();
  void sample();
  void summarize(const std::string& reason);
  bool is_due(std::int64_t every) const;
  bool save_is_requested(unsigned flags) const;
  double margin_seconds() const;

  const Config& config_;
  RunDescription description_;
  ProcessGrid& grid_;
  const data::Datasets& datasets_;
  Log& log_;
  data::Share share_;
  std::string fingerprint_;
  Engine engine_;
  data::Sampler sampler_;
  io::CheckpointStore checkpoints_;
  StopRequests& requests_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<MetricsFile> metrics_;  // on the rank that speaks

  io::Progress progress_;
  LossScale loss_scale_;
  index_t first_step_ = 0;  // that this process trains
  index_t saved_step_ = -1;
  index_t signalled_save_step_ = -10;  // of the last save that a signal asked for
  int failed_saves_ = 0;
  double peak_flops_ = 0;  // of all ranks together, measured

  // Since the last logged step.
  Timer interval_;
  index_t interval_tokens_ = 0, interval_steps_ = 0;
  double interval_paused_ = 0;  // validating and saving: not the steps' time
  // Of this process.
  Timer wall_;
  double data_seconds_ = 0, validation_seconds_ = 0, save_seconds_ = 0;
  double longest_save_ = 0, longest_step_ = 0, longest_validation_ = 0;
  index_t trained_tokens_ = 0, skipped_steps_ = 0, saves_ = 0;
};

}  // namespace llmtrain
