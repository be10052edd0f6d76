// Schedules are simulated on a clock, without MPI: ranks whose sends complete only when the
// receiver gets to them (the strictest that MPI and NCCL may be), and whose receives take what
// the sender sent first.
#include "llmtrain/parallel/pipeline_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "llmtrain/core/error.hpp"

namespace llmtrain {
namespace {

using Kind = Action::Kind;

struct Durations {
  double forward = 1, backward = 1;  // of a micro-batch through all chunks of a rank
};

class Simulation {
 public:
  Simulation(PipelineSchedule schedule, const PipelineShape& shape, Durations durations)
      : shape_(shape), durations_(durations) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      ranks_.push_back({.actions = pipeline_actions(schedule, shape, stage)});
    }
  }

  // False when no rank can go on before all have finished.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < shape_.stages; ++r) {
        while (step(r)) moved = true;
      }
    }
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.done(); });
  }

  double seconds() const {
    double last = 0;
    for (const Rank& rank : ranks_) last = std::max(last, rank.clock);
    return last;
  }
  double bubble() const { return 1 - busy_ / shape_.stages / seconds(); }
  const std::vector<Action>& actions(int r) const { return ranks_[r].actions; }

 private:
  struct Rank {
    std::vector<Action> actions;
    std::size_t next = 0;
    double clock = 0;
    bool done() const { return next == actions.size(); }
  };
  struct Message {
    int part, micro_batch;
    double sent;
  };
  using Channel = std::tuple<int, int, bool>;  // from, to, whether activations

  int part(int r, const Action& action) const { return action.chunk * shape_.stages + r; }

  bool step(int r) {
    Rank& rank = ranks_[r];
    if (rank.done()) return false;
    const Action& action = rank.actions[rank.next];
    switch (action.kind) {
      case Kind::forward:
        compute(rank, durations_.forward / shape_.chunks);
        EXPECT_TRUE(forward_.insert({part(r, action), action.micro_batch}).second);
        EXPECT_TRUE(action.chunk + r == 0 ||
                    forward_.contains({part(r, action) - 1, action.micro_batch}));
        break;
      case Kind::backward: {
        compute(rank, durations_.backward / shape_.chunks);
        const int p = part(r, action), last = shape_.stages * shape_.chunks - 1;
        EXPECT_TRUE(forward_.contains({p, action.micro_batch}));
        EXPECT_TRUE(p == last || backward_.contains({p + 1, action.micro_batch}));
        EXPECT_TRUE(backward_.insert({p, action.micro_batch}).second);
        break;
      }
      case Kind::send_activation:
      case Kind::send_gradient: {
        const bool activation = action.kind == Kind::send_activation;
        auto& channel = channels_[{r, action.peer, activation}];
        if (!channel.empty()) return false;  // the one before is not received yet
        channel.push_back({part(r, action), action.micro_batch, rank.clock});
        break;
      }
      case Kind::receive_activation:
      case Kind::receive_gradient: {
        const bool activation = action.kind == Kind::receive_activation;
        auto& channel = channels_[{action.peer, r, activation}];
        if (channel.empty()) return false;
        const Message message = channel.front();
        channel.pop_front();
        // It is the one that was meant.
        EXPECT_EQ(message.micro_batch, action.micro_batch);
        EXPECT_EQ(message.part, part(r, action) + (activation ? -1 : 1));
        rank.clock = std::max(rank.clock, message.sent);
        break;
      }
    }
    ++rank.next;
    return true;
  }

  void compute(Rank& rank, double seconds) {
    rank.clock += seconds;
    busy_ += seconds;
  }

  PipelineShape shape_;
  Durations durations_;
  std::vector<Rank> ranks_;
  std::map<Channel, std::deque<Message>> channels_;
  std::set<std::pair<int, int>> forward_, backward_;
  double busy_ = 0;
};

void for_all_shapes(
    const std::function<void(PipelineSchedule, const PipelineShape&)>& test) {
  for (const PipelineSchedule schedule : kPipelineSchedules) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int micro_batches = 1; micro_batches <= 17; ++micro_batches) {
        for (int chunks = 1; chunks <= 4; ++chunks) {
          const bool interleaved = schedule == PipelineSchedule::interleaved;
          if (interleaved ? micro_batches % stages != 0 : chunks > 1) continue;
          const PipelineShape shape{stages, chunks, micro_batches};
          SCOPED_TRACE(cat(name(schedule), ", ", stages, " stages, ", chunks, " chunks, ",
                           micro_batches, " micro-batches"));
          test(schedule, shape);
        }
      }
    }
  }
}

TEST(PipelineSchedule, EverythingOnceInOrderWithoutDeadlock) {
  for_all_shapes([](PipelineSchedule schedule, const PipelineShape& shape) {
    Simulation simulation(schedule, shape, {1, 2});
    EXPECT_TRUE(simulation.run()) << "deadlock";
    for (int stage = 0; stage < shape.stages; ++stage) {
      const auto& actions = simulation.actions(stage);
      for (const Kind kind : {Kind::forward, Kind::backward}) {
        EXPECT_EQ(std::ranges::count(actions, kind, &Action::kind),
                  shape.micro_batches * shape.chunks);
      }
    }
  });
}

TEST(PipelineSchedule, ActivationsInFlightAreBounded) {
  for_all_shapes([](PipelineSchedule schedule, const PipelineShape& shape) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      const int most = most_in_flight(pipeline_actions(schedule, shape, stage));
      const int total = shape.micro_batches * shape.chunks,
                waits = shape.stages - 1 - stage;
      switch (schedule) {
        case PipelineSchedule::sequential:
          EXPECT_EQ(most, 1);
          break;
        case PipelineSchedule::gpipe:
          EXPECT_EQ(most, total);
          break;
        case PipelineSchedule::one_f_one_b:
          EXPECT_EQ(most, std::min(total, waits + 1));
          break;
        case PipelineSchedule::interleaved:
          EXPECT_EQ(most,
                    std::min(total, 2 * waits + (shape.chunks - 1) * shape.stages + 1));
          break;
      }
    }
  });
}

// Of equal parts, whatever forward and backward take; sends are free here.
TEST(PipelineSchedule, BubblesAreThoseOfTheFormula) {
  for_all_shapes([](PipelineSchedule schedule, const PipelineShape& shape) {
    for (const Durations& durations : {Durations{1, 1}, {1, 2}}) {
      Simulation simulation(schedule, shape, durations);
      ASSERT_TRUE(simulation.run());
      EXPECT_NEAR(simulation.bubble(), pipeline_bubble(schedule, shape), 1e-12);
    }
  });
}

TEST(PipelineSchedule, ShapesThatDoNotFitAreRefused) {
  EXPECT_THROW(pipeline_actions(PipelineSchedule::interleaved, {4, 2, 6}, 0), Error);
  EXPECT_THROW(pipeline_actions(PipelineSchedule::gpipe, {4, 2, 8}, 0), Error);
  EXPECT_THROW(pipeline_actions(PipelineSchedule::gpipe, {4, 1, 8}, 4), Error);
}

}  // namespace
}  // namespace llmtrain
