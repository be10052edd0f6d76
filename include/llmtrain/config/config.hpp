// Everything that an input file can say, as plain structs with their defaults. Components
// receive their own struct; only app/ reads text.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "llmtrain/config/data_config.hpp"
#include "llmtrain/config/model_config.hpp"

namespace llmtrain {

enum class DeviceChoice { automatic, cpu, cuda };
inline constexpr std::array kDeviceChoices{DeviceChoice::automatic, DeviceChoice::cpu,
                                           DeviceChoice::cuda};
constexpr const char* name(DeviceChoice choice) {
  switch (choice) {
    case DeviceChoice::automatic:
      return "auto";
    case DeviceChoice::cpu:
      return "cpu";
    case DeviceChoice::cuda:
      return "cuda";
  }
  return "?";
}

struct RunConfig {
  std::string directory = "run";  // metrics, checkpoints, STOP and SAVE files
  std::int64_t seed = 1;
  DeviceChoice device = DeviceChoice::automatic;
  std::int64_t threads = 0;    // OpenMP threads of a rank; 0: the cores it may use
  std::string wall_time = "";  // hh:mm:ss after which to save and stop; empty: none
};

struct BatchConfig {
  std::int64_t global = 32;  // sequences of an optimizer step over all ranks
  std::int64_t micro = 0;    // of them that a rank computes at once; 0: global / ranks
};

enum class Precision { f32, bf16, fp16 };
inline constexpr std::array kPrecisions{Precision::f32, Precision::bf16, Precision::fp16};
constexpr const char* name(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return "f32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "?";
}

struct PrecisionConfig {
  Precision dtype = Precision::f32;      // of weights and activations in computation
  Precision gradients = Precision::f32;  // in which gradients of weights are summed
  Precision reduction = Precision::f32;  // in which they travel between ranks
  // The loss is multiplied by a scale that follows the overflows (dtype = fp16 only).
  double loss_scale = 65536;                // the first
  double loss_scale_growth = 2;             // after loss_scale_interval good steps
  double loss_scale_backoff = 0.5;          // after an overflow
  std::int64_t loss_scale_interval = 2000;  // steps
  double loss_scale_minimum = 1;
};

struct OptimizerConfig {
  double learning_rate = 3e-4;  // the schedule's maximum
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of matrices and embeddings
  double clip_norm = 1.0;     // 0: no clipping
  double clip_order = 2.0;    // the p of the norm; inf: the maximum
  std::int64_t max_skipped =
      10;  // consecutive non-finite steps before the run stops (76)
};

enum class ScheduleKind { constant, linear, cosine, wsd };
inline constexpr std::array kScheduleKinds{ScheduleKind::constant, ScheduleKind::linear,
                                           ScheduleKind::cosine, ScheduleKind::wsd};
constexpr const char* name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::linear:
      return "linear";
    case ScheduleKind::cosine:
      return "cosine";
    case ScheduleKind::wsd:
      return "wsd";
  }
  return "?";
}

enum class DecayShape { linear, cosine, one_minus_sqrt, exponential };
inline constexpr std::array kDecayShapes{DecayShape::linear, DecayShape::cosine,
                                         DecayShape::one_minus_sqrt,
                                         DecayShape::exponential};
constexpr const char* name(DecayShape shape) {
  switch (shape) {
    case DecayShape::linear:
      return "linear";
    case DecayShape::cosine:
      return "cosine";
    case DecayShape::one_minus_sqrt:
      return "1-sqrt";
    case DecayShape::exponential:
      return "exponential";
  }
  return "?";
}

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // of wsd: the last steps, in which the rate falls
  DecayShape decay_shape = DecayShape::linear;  // of wsd
  double minimum = 0.0;                         // learning rate at the end
  double cycles = 0.5;                          // of cosine
};

struct TrainConfig {  // exactly one of steps, epochs, tokens is set (not 0)
  std::int64_t steps = 0;
  double epochs = 0.0;
  std::int64_t tokens = 0;
  std::int64_t log_every = 10;        // steps
  std::int64_t evaluate_every = 0;    // steps; 0: only at the end
  std::int64_t evaluate_batches = 0;  // validation batches per rank; 0: all
  std::string sample_prompt = "";     // a text to continue when the run is finished
  std::int64_t sample_tokens = 0;     // 0: no sample
  double sample_temperature = 0.8;
};

struct ParallelConfig {
  std::int64_t zero = 0;  // 0: replicate; 1, 2, 3: shard moments, gradients, weights too
};

enum class VerifyMode { full, sizes };
inline constexpr std::array kVerifyModes{VerifyMode::full, VerifyMode::sizes};
constexpr const char* name(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::full:
      return "full";
    case VerifyMode::sizes:
      return "sizes";
  }
  return "?";
}

struct CheckpointConfig {
  std::string directory = "";   // empty: <run.directory>/checkpoints
  std::int64_t every = 0;       // steps; 0: only at the end or on request
  std::int64_t keep = 2;        // the newest that are kept
  std::int64_t keep_every = 0;  // steps of which checkpoints are kept for ever; 0: none
  std::string resume = "auto";  // auto, none, a step number, or a checkpoint's path
  VerifyMode verify = VerifyMode::full;
  std::int64_t max_failures = 3;  // consecutive failed saves before the run stops (74)
};

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  PrecisionConfig precision;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  ParallelConfig parallel;
  CheckpointConfig checkpoint;
};

}  // namespace llmtrain
