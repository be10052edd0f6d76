// The computing part of training: device, model, units, and one optimizer step. It knows
// neither files nor signals nor text; on the meta device it runs without memory, which is
// how the arenas get their sizes and `--check` its figures.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "llmtrain/comm/grid.hpp"
#include "llmtrain/config/config.hpp"
#include "llmtrain/io/state.hpp"
#include "llmtrain/train/pipeline_runner.hpp"

namespace llmtrain {

// This rank's share of a global batch.
struct StepInput {
  std::span<const ModelInput> micro_batches;
  index_t valid_tokens = 0;  // labels in them that are not ignored
  index_t step = 0;          // 0, 1, ...: of the dropout masks
  index_t applied_step = 1;  // AdamW's t if this step is applied
  double learning_rate = 0;
  double loss_scale = 1;  // gradients are computed multiplied by it
  unsigned flags = 0;     // any bits; every rank gets the bits of all
};

// The same on every rank.
struct StepOutcome {
  double loss = 0;           // mean over the valid tokens of the global batch, nats
  double gradient_norm = 0;  // before clipping, without the loss scale
  index_t valid_tokens = 0;  // of the global batch
  bool applied = false;      // false: loss or gradient was not finite, nothing changed
  unsigned flags = 0;
};

// Bytes of what is kept of a micro-batch, and of scratch.
struct ArenaSizes {
  index_t slot = 0, scratch = 0;
};

// Where the time of the steps went, in seconds of this rank since construction.
struct EngineTimes {
  double forward_backward = 0, optimizer = 0;  // without the communication in them
  double communication = 0;
  double pipeline = 0;  // of the communication: waiting for other parts of the model
};

class Engine {
 public:
  // Allocates everything and initialises the weights. `config` is checked and resolved
  // (batch.micro included). Collective over the grid, which must outlive the engine.
  // Throws Error(resources) when memory does not suffice.
  Engine(const Config& config, ProcessGrid& grid);

  // The engine that rank `rank` of a job of that shape would be, on the meta device, after
  // one step and one evaluation: device().peak_bytes() is what the real one allocates.
  static std::unique_ptr<Engine> plan(const Config& config, const GridShape& shape,
                                      int rank);

  // One optimizer step. Collective.
  StepOutcome train_step(const StepInput& input);
  // Sums over this rank's micro-batch, without dropout. Collective: all ranks call
  // equally often. Not reduced: of the ranks that work on the same samples, callers count the
  // one that ProcessGrid::counts_samples() names.
  double evaluate(const ModelInput& input);
  // Logits after the last of `tokens` (at most model.context), f32 on the host.
  // Collective.
  std::vector<float> last_logits(std::span<std::int32_t> tokens);

  // Whether every weight and moment of all ranks is finite. Collective.
  bool is_finite();

  // This rank's pieces of every tensor, as checkpoints hold them: all that it keeps, or those
  // of which it is the first keeper, so that over all ranks every element is there once.
  enum class Copies { all, first };
  std::vector<io::Piece> pieces(Copies copies);
  // Weights were loaded into pieces(Copies::all): makes them current everywhere. Collective.
  void weights_loaded();

  Units& units() { return *units_; }
  const Units& units() const { return *units_; }
  const Device& device() const { return device_; }
  EngineTimes times() const;

 private:
  Engine(const Config& config, DeviceKind kind, ArenaSizes sizes, ProcessGrid& grid);
  Engine(const Config& config, std::unique_ptr<ProcessGrid> pretended);
  static ArenaSizes measure(const Config& config, const GridShape& shape, int rank);
  void run_on_meta();
  double communication_seconds();

  std::unique_ptr<ProcessGrid> pretended_;  // the grid on the meta device
  Config config_;
  ProcessGrid& grid_;
  Device device_;
  Arena saved_;  // nothing: what a micro-batch saves lies in the runner's slots
  Arena scratch_;
  Context ctx_;
  Transformer model_;
  std::unique_ptr<Units> units_;
  PipelineRunner runner_;
  EngineTimes times_;
};

}  // namespace llmtrain
