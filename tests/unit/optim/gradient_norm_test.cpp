#include "llmtrain/optim/gradient_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace llmtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Values of torch.nn.utils.clip_grad_norm_ in float64: gradients (3, 4), (12), maximum 1.
TEST(Clip, GoldenValues) {
  const double norm = gradient_norm({25.0, 144.0}, 2.0);
  EXPECT_DOUBLE_EQ(norm, 13.0);
  const double coefficient = clip_coefficient(norm, 1.0);
  EXPECT_DOUBLE_EQ(3 * coefficient, 0.23076921301775288);
  EXPECT_DOUBLE_EQ(4 * coefficient, 0.3076922840236705);
  EXPECT_DOUBLE_EQ(12 * coefficient, 0.9230768520710115);
  // Clips even where the norm is just the maximum.
  EXPECT_DOUBLE_EQ(clip_coefficient(1.0, 1.0), 0.999999000001);
}

TEST(Clip, NeverEnlargesAndCanBeOff) {
  EXPECT_EQ(clip_coefficient(0.1, 1.0), 1.0);
  EXPECT_EQ(clip_coefficient(100.0, 0.0), 1.0);
}

TEST(GradientNorm, AnyOrder) {
  EXPECT_DOUBLE_EQ(gradient_norm({7.0, 12.0}, 1.0), 19.0);
  EXPECT_DOUBLE_EQ(gradient_norm({27.0, 64.0, 125.0}, 3.0), 6.0);
  EXPECT_DOUBLE_EQ(gradient_norm({3.0, 12.0, 4.0}, kInfinity), 12.0);
}

TEST(GradientNorm, WhatIsNotFiniteSurvives) {
  const double nan = std::nan("");
  for (const double p : {2.0, kInfinity}) {
    EXPECT_TRUE(std::isnan(gradient_norm({1.0, nan, 2.0}, p))) << p;
    EXPECT_TRUE(std::isnan(gradient_norm({nan, 1.0, 2.0}, p))) << p;
    EXPECT_TRUE(std::isinf(gradient_norm({1.0, kInfinity}, p))) << p;
  }
}

}  // namespace
}  // namespace llmtrain
