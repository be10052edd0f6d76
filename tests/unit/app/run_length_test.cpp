#include "llmtrain/config/run_length.hpp"

#include <gtest/gtest.h>

#include <string>

#include "llmtrain/core/error.hpp"

namespace llmtrain {
namespace {

TEST(TotalSteps, AreTheFewestThatReachTheLength) {
  // 100 samples an epoch, batches of 8 sequences of 16 tokens.
  const auto steps = [](const TrainConfig& train) {
    return total_steps(train, 100, 8, 16);
  };
  EXPECT_EQ(steps({.steps = 7}), 7);
  EXPECT_EQ(steps({.epochs = 1}), 13);
  EXPECT_EQ(steps({.epochs = 2}), 25);
  EXPECT_EQ(steps({.epochs = 0.08}), 1);
  EXPECT_EQ(steps({.epochs = 0.001}), 1);
  EXPECT_EQ(steps({.tokens = 1}), 1);
  EXPECT_EQ(steps({.tokens = 128}), 1);
  EXPECT_EQ(steps({.tokens = 129}), 2);
}

TEST(TotalSteps, IgnoreTheRoundingOfEpochs) {
  EXPECT_GT(0.07 * 100, 7);
  EXPECT_EQ(total_steps({.epochs = 0.07}, 100, 1, 1), 7);
  EXPECT_EQ(total_steps({.epochs = 2}, 1000000007, 1, 1), 2000000014);
}

TEST(TotalSteps, HaveAnEnd) {
  EXPECT_EQ(total_steps({.steps = kMaximumSteps}, 1, 1, 1), kMaximumSteps);
  EXPECT_THROW(total_steps({.tokens = kMaximumSteps + 1}, 1, 1, 1), Error);
  EXPECT_THROW(total_steps({.epochs = 1e6}, 1000000000000, 1, 1), Error);
}

TEST(WallTime, OfAllForms) {
  EXPECT_EQ(wall_time_seconds("00:00:01"), 1);
  EXPECT_EQ(wall_time_seconds("01:02:03"), 3723);
  EXPECT_EQ(wall_time_seconds("1:02:03"), 3723);
  EXPECT_EQ(wall_time_seconds("100:00:00"), 360000);
  EXPECT_EQ(wall_time_seconds("2-03:04:05"), 2 * 86400 + 3 * 3600 + 245);
  EXPECT_EQ(wall_time_seconds("0-00:30:00"), 1800);
}

TEST(WallTime, IsStrict) {
  for (const char* text : {"",
                           "30",
                           "30:00",
                           "00:00:00",
                           "01:60:00",
                           "01:00:60",
                           "01:0:00",
                           "01:00:0",
                           ":00:01",
                           "1-24:00:00",
                           "1-1:00:00",
                           "-01:00:00",
                           "01:00:00 ",
                           " 01:00:00",
                           "01:00:00s",
                           "1h",
                           "1000000:00:00",
                           "1--01:00:00",
                           "1-01:00",
                           "+1:00:00"}) {
    EXPECT_FALSE(wall_time_seconds(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace llmtrain
