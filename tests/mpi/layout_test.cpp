// I4: every layout follows the curve of one rank: loss 2e-6, norm before clipping 1e-5,
// relative, over 20 steps. And the meta device counts what each rank allocates, to the byte.
#include <gtest/gtest.h>

#include <cmath>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "support/tiny.hpp"

namespace llmtrain {
namespace {

constexpr index_t kSteps = 20;

// A layout for as many ranks as its axes need.
struct Layout {
  int data = 1, pipeline = 1, tensor = 1, zero = 0;
  index_t micro_batches = 1;
  double dropout = 0;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int chunks = 1;

  int ranks() const { return data * pipeline * tensor; }
  std::string text() const {
    return cat("data ", data, ", pipeline ", pipeline, ", tensor ", tensor, ", zero ",
               zero, ", ", micro_batches, " micro-batches, dropout ", dropout, ", ",
               name(schedule), ", chunks ", chunks);
  }
};

Config configure(ModelFamily family, const Layout& layout) {
  Config config = tiny::config(family, layout.zero, layout.data, layout.micro_batches);
  config.model.layers = 4;
  config.parallel.tensor = layout.tensor;
  config.parallel.pipeline = layout.pipeline;
  config.parallel.schedule = layout.schedule;
  config.parallel.chunks = layout.chunks;
  config.model.dropout = layout.dropout;
  return config;
}

tiny::Curve run(const Config& config, Communicator& world) {
  ProcessGrid grid(world, grid_shape(config.parallel, world.size()));
  Engine engine(config, grid);
  const tiny::Curve curve = tiny::train(
      engine, config, kSteps, grid.coordinate(Axis::data), grid.shape()[Axis::data]);
  const auto plan = Engine::plan(config, grid.shape(), world.rank());
  for (int use = 0; use < kMemoryUses; ++use) {
    const auto which = static_cast<MemoryUse>(use);
    EXPECT_EQ(engine.device().peak_bytes(which), plan->device().peak_bytes(which))
        << name(which);
  }
  return curve;
}

void expect_one_curve(const tiny::Curve& a, const tiny::Curve& b) {
  for (std::size_t s = 0; s < kSteps; ++s) {
    EXPECT_NEAR(a.losses[s], b.losses[s], 2e-6 * b.losses[s]) << "step " << s;
    EXPECT_NEAR(a.norms[s], b.norms[s], 1e-5 * b.norms[s]) << "step " << s;
  }
}

// Every layout that the ranks of this run allow, run on as many of them.
using enum PipelineSchedule;
const std::vector<Layout> kLayouts{
    {.tensor = 2},
    {.tensor = 2, .dropout = 0.1},
    {.tensor = 2, .micro_batches = 3},
    {.pipeline = 2},
    {.pipeline = 2, .micro_batches = 4, .dropout = 0.1},
    {.pipeline = 2, .micro_batches = 3, .schedule = sequential},
    {.pipeline = 2, .micro_batches = 4, .dropout = 0.1, .schedule = gpipe},
    {.pipeline = 2, .micro_batches = 4, .schedule = interleaved, .chunks = 2},
    {.tensor = 4, .dropout = 0.1},
    {.pipeline = 4, .micro_batches = 6, .dropout = 0.1},
    {.pipeline = 2, .tensor = 2, .micro_batches = 2, .dropout = 0.1},
    {.data = 2, .pipeline = 2, .zero = 1, .micro_batches = 3, .dropout = 0.1},
    {.data = 2, .pipeline = 2, .zero = 2, .micro_batches = 4, .schedule = gpipe},
    {.data = 2,
     .pipeline = 2,
     .zero = 3,
     .micro_batches = 4,
     .dropout = 0.1,
     .schedule = interleaved,
     .chunks = 2},
    {.data = 2, .tensor = 2, .zero = 1, .dropout = 0.1},
    {.data = 2, .tensor = 2, .zero = 2, .micro_batches = 2},
    {.data = 2, .tensor = 2, .zero = 3},
    {.data = 3, .tensor = 2, .zero = 3, .dropout = 0.1},
    {.data = 3, .pipeline = 2, .zero = 2, .micro_batches = 2},
    {.data = 2, .tensor = 4, .zero = 3, .micro_batches = 3},
    {.data = 4, .tensor = 2, .zero = 2},
    {.data = 2, .tensor = 4, .zero = 1, .dropout = 0.1},
    {.pipeline = 2, .tensor = 4, .micro_batches = 4},
    {.pipeline = 4, .tensor = 2, .micro_batches = 4, .dropout = 0.1},
    {.data = 2,
     .pipeline = 2,
     .tensor = 2,
     .zero = 3,
     .micro_batches = 3,
     .dropout = 0.1},
    {.data = 2, .pipeline = 4, .zero = 1, .micro_batches = 4, .schedule = sequential},
    {.data = 4, .pipeline = 2, .zero = 2, .micro_batches = 3},
};

class Layouts : public testing::TestWithParam<ModelFamily> {
 protected:
  std::unique_ptr<Communicator> world_ = make_world_communicator();
};

TEST_P(Layouts, FollowOneCurve) {
  for (const Layout& layout : kLayouts) {
    if (layout.ranks() > world_->size()) continue;
    SCOPED_TRACE(layout.text());
    // Ranks that a layout does not need wait.
    const bool takes_part = world_->rank() < layout.ranks();
    const auto ranks = world_->split(takes_part ? 0 : 1);
    if (takes_part) {
      Layout one;
      one.dropout = layout.dropout;
      const auto alone = make_self_communicator();
      expect_one_curve(run(configure(GetParam(), layout), *ranks),
                       run(configure(GetParam(), one), *alone));
    }
    world_->barrier();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Layouts,
                         testing::Values(ModelFamily::gpt2, ModelFamily::llama),
                         [](const auto& parameter) {
                           return std::string(name(parameter.param));
                         });

}  // namespace
}  // namespace llmtrain
