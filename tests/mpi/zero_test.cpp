// The invariants that sharding rests on (f32, one thread):
//   I1  the same run twice is bitwise equal
//   I3  ZeRO 0, 1, 2, 3 are bitwise equal at the same size without accumulation, and
//   within
//       f32 rounding with it
//   I4  every data-parallel size follows one curve: loss 2e-6, norm 1e-5, relative
//   the memory that the meta device counts is what the run allocates, to the byte
//   I6  micro-batches and ranks do not change the loss, labels masked unevenly
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "support/tiny.hpp"

namespace llmtrain {
namespace {

constexpr index_t kSteps = 20;

struct Result {
  tiny::Curve curve;
  std::vector<float> state;
};

Result run(const Config& config, Communicator& world) {
  GridShape shape;
  shape[Axis::data] = world.size();
  ProcessGrid grid(world, shape);
  Engine engine(config, grid);
  Result result;
  result.curve = tiny::train(engine, config, kSteps, world.rank(), world.size());
  result.state = tiny::state(engine);
  const auto plan = Engine::plan(config, world.rank(), world.size());
  for (int use = 0; use < kMemoryUses; ++use) {
    const auto which = static_cast<MemoryUse>(use);
    EXPECT_EQ(engine.device().peak_bytes(which), plan->device().peak_bytes(which))
        << name(which) << ", stage " << config.parallel.zero;
  }
  return result;
}

void expect_bitwise(const Result& a, const Result& b, const std::string& what) {
  EXPECT_EQ(a.curve.losses, b.curve.losses) << what;
  EXPECT_EQ(a.curve.norms, b.curve.norms) << what;
  EXPECT_TRUE(a.state.size() == b.state.size() &&
              std::memcmp(a.state.data(), b.state.data(), a.state.size() * 4) == 0)
      << what << ": weights or moments differ";
}

void expect_one_curve(const Result& a, const Result& b, const std::string& what) {
  for (std::size_t s = 0; s < kSteps; ++s) {
    EXPECT_NEAR(a.curve.losses[s], b.curve.losses[s], 2e-6 * a.curve.losses[s])
        << what << ", step " << s;
    EXPECT_NEAR(a.curve.norms[s], b.curve.norms[s], 1e-5 * a.curve.norms[s])
        << what << ", step " << s;
  }
}

class Zero : public testing::TestWithParam<ModelFamily> {
 protected:
  std::unique_ptr<Communicator> world_ = make_world_communicator();
};

TEST_P(Zero, StagesAreBitwiseEqual) {
  for (const double dropout : {0.0, 0.1}) {
    Config config = tiny::config(GetParam(), 0, world_->size());
    config.model.dropout = dropout;
    const Result reference = run(config, *world_);
    EXPECT_LT(reference.curve.losses.back(), reference.curve.losses.front());
    for (int stage = 0; stage <= 3; ++stage) {  // stage 0 again: I1
      config.parallel.zero = stage;
      expect_bitwise(run(config, *world_), reference,
                     cat("stage ", stage, ", dropout ", dropout));
    }
  }
}

// The same in 16 bits, whatever gradients are summed and travel in.
TEST_P(Zero, StagesAreBitwiseEqualInEveryPrecision) {
  struct Case {
    Precision dtype, gradients, reduction;
  };
  using enum Precision;
  const std::vector<Case> cases{{bf16, f32, f32},  {bf16, bf16, bf16}, {bf16, f32, bf16},
                                {bf16, bf16, f32}, {fp16, f32, f32},   {fp16, fp16, fp16},
                                {f32, f32, bf16}};
  Config config = tiny::config(GetParam(), 0, world_->size());
  config.model.dropout = 0.1;
  const Result in_f32 = run(config, *world_);
  for (const auto& [dtype, gradients, reduction] : cases) {
    config.precision = {.dtype = dtype, .gradients = gradients, .reduction = reduction};
    config.parallel.zero = 0;
    const Result reference = run(config, *world_);
    const std::string what = cat(name(dtype), ", gradients ", name(gradients),
                                 ", reduced in ", name(reduction));
    EXPECT_NE(reference.curve.losses, in_f32.curve.losses) << what;
    // Rounding to 8 bits (bf16) or 11 (fp16) moves the loss of about 4 by less than this.
    for (std::size_t s = 0; s < kSteps; ++s) {
      EXPECT_NEAR(reference.curve.losses[s], in_f32.curve.losses[s], 0.02) << what;
    }
    for (int stage = 1; stage <= 3; ++stage) {
      config.parallel.zero = stage;
      expect_bitwise(run(config, *world_), reference, cat(what, ", stage ", stage));
    }
  }
}

TEST_P(Zero, AccumulationFollowsTheSameCurve) {
  const Result reference = run(tiny::config(GetParam(), 0, world_->size()), *world_);
  for (int stage = 0; stage <= 3; ++stage) {
    const Config config = tiny::config(GetParam(), stage, world_->size(), 3);
    expect_one_curve(run(config, *world_), reference,
                     cat("3 micro-batches, stage ", stage));
  }
}

TEST_P(Zero, EveryNumberOfRanksFollowsOneCurve) {
  for (const double dropout : {0.0, 0.1}) {
    const auto configure = [&](int ranks, int stage) {
      Config config = tiny::config(GetParam(), stage, ranks);
      config.model.dropout = dropout;
      return config;
    };
    const auto alone = make_self_communicator();
    const Result reference = run(configure(1, 0), *alone);
    const int stage = world_->size() % 4;
    expect_one_curve(run(configure(world_->size(), stage), *world_), reference,
                     cat(world_->size(), " ranks, stage ", stage));
  }
}

// A NaN on one rank only: all ranks skip the same step, and nothing changes anywhere.
TEST_P(Zero, OneRankThatIsNotFiniteMakesAllSkip) {
  for (int stage = 0; stage <= 3; ++stage) {
    const Config config = tiny::config(GetParam(), stage, world_->size());
    GridShape shape;
    shape[Axis::data] = world_->size();
    ProcessGrid grid(*world_, shape);
    Engine engine(config, grid);
    float* const weight = engine.units().slice(1).weights.data<float>();
    const float kept = *weight;
    if (world_->rank() == world_->size() - 1) *weight = std::nanf("");
    const std::vector<float> before = tiny::state(engine);
    const StepOutcome outcome =
        tiny::step(engine, config, 0, world_->rank(), world_->size());
    EXPECT_FALSE(outcome.applied) << "stage " << stage;
    const std::vector<float> after = tiny::state(engine);
    EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * 4), 0)
        << "stage " << stage;
    *weight = kept;
    EXPECT_TRUE(tiny::step(engine, config, 1, world_->rank(), world_->size()).applied);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Zero,
                         testing::Values(ModelFamily::gpt2, ModelFamily::llama),
                         [](const auto& parameter) {
                           return std::string(name(parameter.param));
                         });

}  // namespace
}  // namespace llmtrain
