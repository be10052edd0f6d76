// Takes the micro-batches of a step through the parts of a model, by the actions of a
// schedule. A model that is not cut is a pipeline of one.
#pragma once

#include <span>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/model/transformer.hpp"
#include "llmtrain/parallel/pipeline_schedule.hpp"

namespace llmtrain {

struct PipelineSettings {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;                      // parts of the model that each rank has
  int micro_batches = 1;               // of a step
  index_t sequences = 1, seq_len = 1;  // of a micro-batch
};

class PipelineRunner {
 public:
  // Allocates on ctx.device what is kept of micro-batches in flight: as many slots as the
  // schedule needs, each of `slot_bytes` (0 on the meta device, which measures them). `pipeline`,
  // `model` and ctx must outlive this. Every call is collective over the pipeline, and as the
  // model's are.
  PipelineRunner(Context& ctx, Communicator& pipeline, Transformer& model,
                 const PipelineSettings& settings, index_t slot_bytes);

  // The sum over this rank's tokens of the cross-entropy, on the last rank of the pipeline;
  // elsewhere 0. All ranks of a pipeline give the same micro-batches.
  double forward_backward(Units& units, std::span<const ModelInput> inputs, float scale);
  // The same for one micro-batch without gradients and dropout.
  double evaluate(Units& units, const ModelInput& input);
  // Logits that follow the last token of one sequence; out f32 [vocabulary], written on the last
  // rank of the pipeline.
  void last_logits(Units& units, const ModelInput& input, TensorView out);

  bool is_last() const { return pipeline_.rank() + 1 == pipeline_.size(); }
  // The most bytes that a slot has held.
  index_t slot_high_water() const;

 private:
  // A micro-batch in flight in one of this rank's parts.
  struct Slot {
    Arena arena;
    MicroBatchState state;
    TensorView input;  // received from the part before
    int chunk = -1, micro_batch = -1;
    std::vector<Communicator::Ticket> sends;
  };
  // The gradient on its way back, and the message that still needs it.
  struct GradientBuffer {
    Buffer buffer;
    std::vector<Communicator::Ticket> sends;
  };

  Slot& take_slot(int chunk, int micro_batch);
  Slot& slot_of(int chunk, int micro_batch);
  void free_slot(Slot& slot);
  void finish(std::vector<Communicator::Ticket>& sends);
  Shape activation_shape(const ModelInput& input) const;
  void receive_input(Slot& slot, const ModelInput& input, int from);
  // The other gradient buffer, once its message is done.
  TensorView next_gradient(const ModelInput& input);
  Context context(Slot& slot) { return {ctx_.device, slot.arena, ctx_.scratch}; }
  // One micro-batch through all parts of this rank, alone.
  Slot& forward_only(Units& units, const ModelInput& input);

  Context& ctx_;
  Communicator& pipeline_;
  Transformer& model_;
  PipelineSettings settings_;
  std::vector<Action> actions_;
  std::vector<Slot> slots_;
  std::vector<GradientBuffer> gradients_;
  std::size_t gradient_ = 0;  // the buffer in use
};

}  // namespace llmtrain
