// Golden values: computed in double from the formulas of the header, W = 4 warm-up steps,
// T = 20 steps in all, D = 6 decay steps, maximum 1e-3, minimum 1e-4.
#include "llmtrain/optim/lr_schedule.hpp"

#include <gtest/gtest.h>

namespace llmtrain {
namespace {

constexpr index_t kSteps[] = {0, 3, 4, 5, 12, 14, 15, 17, 19};

struct Row {
  const char* name;
  ScheduleKind kind;
  DecayShape shape;
  double rates[std::size(kSteps)];
};

const Row kRows[] = {
    {"linear",
     ScheduleKind::linear,
     DecayShape::linear,
     {2.5e-4, 1e-3, 1e-3, 9.437500000e-04, 5.5e-4, 4.375e-4, 3.812500000e-04,
      2.687500000e-04, 1.562500000e-04}},
    {"cosine",
     ScheduleKind::cosine,
     DecayShape::linear,
     {2.5e-4, 1e-3, 1e-3, 9.913533762e-04, 5.5e-4, 3.777924554e-04, 2.999933951e-04,
      1.758386745e-04, 1.086466238e-04}},
    {"wsd linear",
     ScheduleKind::wsd,
     DecayShape::linear,
     {2.5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 8.5e-4, 5.5e-4, 2.5e-4}},
    {"wsd cosine",
     ScheduleKind::wsd,
     DecayShape::cosine,
     {2.5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 9.397114317e-04, 5.5e-4, 1.602885683e-04}},
    {"wsd 1-sqrt",
     ScheduleKind::wsd,
     DecayShape::one_minus_sqrt,
     {2.5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 6.325765386e-04, 3.636038969e-04,
      1.784161637e-04}},
    {"wsd exponential",
     ScheduleKind::wsd,
     DecayShape::exponential,
     {2.5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 8.036176927e-04, 4.727922061e-04,
      2.102158435e-04}},
};

TEST(LearningRate, GoldenValues) {
  for (const Row& row : kRows) {
    ScheduleConfig schedule;
    schedule.kind = row.kind;
    schedule.warmup_steps = 4;
    schedule.decay_steps = row.kind == ScheduleKind::wsd ? 6 : 0;
    schedule.decay_shape = row.shape;
    schedule.minimum = 1e-4;
    for (std::size_t i = 0; i < std::size(kSteps); ++i) {
      EXPECT_NEAR(learning_rate(schedule, 1e-3, 20, kSteps[i]), row.rates[i], 1e-13)
          << row.name << ", step " << kSteps[i];
    }
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1e-3, 20, 20), 1e-4) << row.name;
  }
}

TEST(LearningRate, ConstantStaysAtTheMaximum) {
  ScheduleConfig schedule;
  schedule.kind = ScheduleKind::constant;
  schedule.warmup_steps = 2;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1e-3, 10, 0), 5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1e-3, 10, 9), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1e-3, 10, 10), 1e-3);
}

TEST(LearningRate, NoWarmup) { EXPECT_DOUBLE_EQ(learning_rate({}, 1e-3, 10, 0), 1e-3); }

}  // namespace
}  // namespace llmtrain
