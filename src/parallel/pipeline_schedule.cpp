#include "llmtrain/parallel/pipeline_schedule.hpp"

#include <algorithm>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

using Kind = Action::Kind;

// What a rank computes, in order.
struct Compute {
  bool forward;
  int chunk, micro_batch;
};

std::vector<Compute> sequential_order(int micro_batches) {
  std::vector<Compute> order;
  for (int m = 0; m < micro_batches; ++m) {
    order.push_back({true, 0, m});
    order.push_back({false, 0, m});
  }
  return order;
}

// `warm_up` forward, then one forward and one backward in turn, then what is left backward.
// forward(i) and backward(i) say which chunk and micro-batch is the i-th in its direction.
template <class Forward, class Backward>
std::vector<Compute> one_each_order(int total, int warm_up, Forward forward,
                                    Backward backward) {
  std::vector<Compute> order;
  warm_up = std::min(warm_up, total);
  for (int i = 0; i < warm_up; ++i) order.push_back(forward(i));
  for (int i = 0; i < total - warm_up; ++i) {
    order.push_back(forward(warm_up + i));
    order.push_back(backward(i));
  }
  for (int i = total - warm_up; i < total; ++i) order.push_back(backward(i));
  return order;
}

// Micro-batches go through a rank's chunks in groups of `stages`: the group through chunk 0,
// then through chunk 1, ..., then the next group.
std::vector<Compute> interleaved_order(const PipelineShape& shape, int stage) {
  const int group = shape.stages * shape.chunks;
  const auto at = [=](int i, bool forward) {
    const int chunk = i % group / shape.stages;
    return Compute{forward, forward ? chunk : shape.chunks - 1 - chunk,
                   i / group * shape.stages + i % shape.stages};
  };
  const int total = shape.micro_batches * shape.chunks;
  const int warm_up = 2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * shape.stages;
  return one_each_order(
      total, warm_up, [&](int i) { return at(i, true); },
      [&](int i) { return at(i, false); });
}

std::vector<Compute> order_of(PipelineSchedule schedule, const PipelineShape& shape,
                              int stage) {
  const int total = shape.micro_batches;
  const auto forward = [](int i) { return Compute{true, 0, i}; };
  const auto backward = [](int i) { return Compute{false, 0, i}; };
  switch (schedule) {
    case PipelineSchedule::sequential:
      return sequential_order(total);
    case PipelineSchedule::gpipe:
      return one_each_order(total, total, forward, backward);
    case PipelineSchedule::one_f_one_b:
      return one_each_order(total, shape.stages - 1 - stage, forward, backward);
    case PipelineSchedule::interleaved:
      return interleaved_order(shape, stage);
  }
  return {};
}

}  // namespace

std::vector<Action> pipeline_actions(PipelineSchedule schedule,
                                     const PipelineShape& shape, int stage) {
  const int stages = shape.stages;
  require(stage >= 0 && stage < stages && shape.chunks > 0 && shape.micro_batches > 0,
          "stage ", stage, " of ", stages, ", ", shape.chunks, " chunks, ",
          shape.micro_batches, " micro-batches");
  require(schedule == PipelineSchedule::interleaved || shape.chunks == 1,
          "only the interleaved schedule has several chunks");
  require(schedule != PipelineSchedule::interleaved || shape.micro_batches % stages == 0,
          "micro-batches are no multiple of the stages");
  const int before = (stage + stages - 1) % stages, behind = (stage + 1) % stages;
  const int last_part = stages * shape.chunks - 1;
  std::vector<Action> actions;
  for (const auto& [forward, chunk, m] : order_of(schedule, shape, stage)) {
    const int part = chunk * stages + stage;
    // Neighbouring parts of one rank hand over without a transfer.
    const bool from_before = part > 0 && stages > 1;
    const bool from_behind = part < last_part && stages > 1;
    if (forward) {
      if (from_before) actions.push_back({Kind::receive_activation, chunk, m, before});
      actions.push_back({Kind::forward, chunk, m});
      if (from_behind) actions.push_back({Kind::send_activation, chunk, m, behind});
    } else {
      if (from_behind) actions.push_back({Kind::receive_gradient, chunk, m, behind});
      actions.push_back({Kind::backward, chunk, m});
      if (from_before) actions.push_back({Kind::send_gradient, chunk, m, before});
    }
  }
  return actions;
}

int most_in_flight(const std::vector<Action>& actions) {
  int now = 0, most = 0;
  for (const Action& action : actions) {
    now += (action.kind == Kind::forward) - (action.kind == Kind::backward);
    most = std::max(most, now);
  }
  return most;
}

double pipeline_bubble(PipelineSchedule schedule, const PipelineShape& shape) {
  const double waits = shape.stages - 1;
  if (schedule == PipelineSchedule::sequential) return waits / shape.stages;
  return waits / (shape.micro_batches * shape.chunks + waits);
}

}  // namespace llmtrain
