// What each rank of a pipeline does in a step, as data. Pure functions: nothing here computes
// or communicates.
//
// A pipeline has `stages` ranks. The model's layers are cut into stages * chunks parts; rank s
// has the parts s, stages + s, 2 stages + s, ... as its chunks 0, 1, 2, ... A micro-batch goes
// forward through all parts in order and backward in the opposite one.
#pragma once

#include <vector>

#include "llmtrain/config/config.hpp"

namespace llmtrain {

struct PipelineShape {
  int stages = 1, chunks = 1, micro_batches = 1;
};

// A send or receive is of the activations behind, or of their gradient before, the part that
// (rank, chunk) stands for: the chunk is the sender's for sends and the receiver's for receives.
struct Action {
  enum class Kind {
    receive_activation,
    forward,
    send_activation,
    receive_gradient,
    backward,
    send_gradient
  };
  Kind kind;
  int chunk, micro_batch;
  int peer = -1;  // of a transfer: the other rank

  bool operator==(const Action&) const = default;
};

// The actions of rank `stage`. A receive stands right before what needs it, a send right behind
// what made it; sends complete when the receiver gets to them, so a rank goes on without waiting
// and needs the buffer until then.
//   sequential   one micro-batch at a time, one rank at work at a time
//   gpipe        all forward, then all backward (Huang et al. 2019)
//   1f1b         backward as soon as possible (Narayanan et al. 2019, "PipeDream-Flush")
//   interleaved  1f1b over several chunks a rank (Narayanan et al. 2021, section 2.2);
//                micro_batches must be a multiple of stages
std::vector<Action> pipeline_actions(PipelineSchedule schedule,
                                     const PipelineShape& shape, int stage);

// The most micro-batches, counted once for each chunk, that have gone forward and not yet
// backward: activations are kept of so many.
int most_in_flight(const std::vector<Action>& actions);

// The share of the step that a rank waits when all parts take equally long:
// (P - 1) / (M v + P - 1) for P stages, M micro-batches, v chunks; (P - 1) / P for sequential.
double pipeline_bubble(PipelineSchedule schedule, const PipelineShape& shape);

}  // namespace llmtrain
