#include "llmtrain/optim/loss_scaler.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace llmtrain {
namespace {

PrecisionConfig fp16_config() {
  PrecisionConfig config;
  config.dtype = Precision::fp16;
  config.loss_scale = 16;
  config.loss_scale_interval = 3;
  return config;
}

// The trace of torch.amp.GradScaler(init_scale=16, growth_factor=2, backoff_factor=0.5,
// growth_interval=3).
TEST(LossScaler, FollowsPytorchsTrace) {
  struct Row {
    bool overflow;
    double scale;
    std::int64_t good_steps;
  };
  const std::vector<Row> trace{{false, 16, 1}, {false, 16, 2}, {false, 32, 0},
                               {true, 16, 0},  {false, 16, 1}, {false, 16, 2},
                               {false, 32, 0}, {false, 32, 1}, {false, 32, 2},
                               {false, 64, 0}, {true, 32, 0},  {true, 16, 0}};
  LossScale scale = first_loss_scale(fp16_config());
  EXPECT_EQ(scale, (LossScale{16, 0}));
  for (const Row& row : trace) {
    scale = next_loss_scale(fp16_config(), scale, row.overflow);
    EXPECT_EQ(scale, (LossScale{row.scale, row.good_steps}));
  }
}

TEST(LossScaler, StopsAtTheFloor) {
  const PrecisionConfig config = fp16_config();
  LossScale scale = first_loss_scale(config);
  for (const double expected : {8.0, 4.0, 2.0, 1.0, 1.0}) {
    EXPECT_EQ(can_shrink(config, scale), scale.value > 1);
    scale = next_loss_scale(config, scale, true);
    EXPECT_EQ(scale.value, expected);
  }
}

TEST(LossScaler, NeverGrowsBeyondF32) {
  const PrecisionConfig config = fp16_config();
  const LossScale scale = next_loss_scale(config, {0x1p127, 2}, false);
  EXPECT_EQ(scale, (LossScale{0x1p127, 0}));
}

TEST(LossScaler, IsOneOutsideFp16) {
  PrecisionConfig config = fp16_config();
  for (const Precision dtype : {Precision::f32, Precision::bf16}) {
    config.dtype = dtype;
    EXPECT_EQ(first_loss_scale(config), LossScale{});
    EXPECT_EQ(next_loss_scale(config, {}, true), LossScale{});
    EXPECT_EQ(next_loss_scale(config, {}, false), LossScale{});
    EXPECT_FALSE(can_shrink(config, {}));
  }
}

}  // namespace
}  // namespace llmtrain
