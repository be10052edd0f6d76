// The right values are the compiler's own _Float16 for fp16, and for bf16 the definition:
// the nearest of the two neighbours whose lower half is zero, ties to even.
#include "llmtrain/tensor/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace llmtrain {
namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

bf16 nearest_bf16(float x) {
  const std::uint32_t low = bits_of(x) & 0xffff0000;
  const double below = float_of(low);
  // The upper neighbour of the largest finite value stands for what overflows: 2^128.
  const double above = (low & 0x7fff0000) == 0x7f7f0000 ? std::copysign(0x1p128, x)
                                                        : float_of(low + 0x10000);
  const double to_below = std::fabs(x - below), to_above = std::fabs(above - x);
  const bool up = to_above < to_below || (to_above == to_below && (low >> 16 & 1));
  return {static_cast<std::uint16_t>((low >> 16) + (up ? 1 : 0))};
}

void expect_fp16(float x) {
  const auto right = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
  const auto got = from_float<fp16>(x).bits;
  if (std::isnan(x)) {
    ASSERT_TRUE(std::isnan(to_float(from_float<fp16>(x)))) << std::hex << bits_of(x);
  } else {
    ASSERT_EQ(got, right) << "of " << x << " = 0x" << std::hex << bits_of(x);
  }
}

void expect_bf16(float x) {
  if (std::isnan(x)) {
    ASSERT_TRUE(std::isnan(to_float(from_float<bf16>(x)))) << std::hex << bits_of(x);
  } else if (std::isfinite(x)) {
    ASSERT_EQ(from_float<bf16>(x).bits, nearest_bf16(x).bits)
        << "of " << x << " = 0x" << std::hex << bits_of(x);
  } else {
    ASSERT_EQ(to_float(from_float<bf16>(x)), x);
  }
}

TEST(Half, EveryFp16ReadsAsTheCompilersDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const fp16 x{static_cast<std::uint16_t>(bits)};
    const auto right = static_cast<float>(std::bit_cast<_Float16>(x.bits));
    if (std::isnan(right)) {
      ASSERT_TRUE(std::isnan(to_float(x))) << bits;
    } else {
      ASSERT_EQ(bits_of(to_float(x)), bits_of(right)) << bits;
      ASSERT_EQ(from_float<fp16>(right).bits, x.bits);
    }
  }
}

TEST(Half, EveryBf16RoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 x{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(x))) continue;
    ASSERT_EQ(bits_of(to_float(x)), bits << 16);
    ASSERT_EQ(from_float<bf16>(to_float(x)).bits, x.bits);
  }
}

TEST(Half, RoundsToNearestEvenAroundEveryMidpoint) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = to_float(fp16{static_cast<std::uint16_t>(bits)});
    const float high =
        bits == 0x7bff ? 65536.0f : to_float(fp16{static_cast<std::uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    for (const float x :
         {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, high)}) {
      expect_fp16(x);
      expect_fp16(-x);
    }
  }
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    for (const std::uint32_t lower : {0x7fffu, 0x8000u, 0x8001u}) {
      expect_bf16(float_of(bits << 16 | lower));
      expect_bf16(-float_of(bits << 16 | lower));
    }
  }
}

TEST(Half, AnyF32RoundsAsItShould) {
  std::mt19937 draw(7);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = float_of(static_cast<std::uint32_t>(draw()));
    expect_fp16(x);
    expect_bf16(x);
  }
  for (const float x : {std::numeric_limits<float>::infinity(), 65504.0f, 65519.996f,
                        65520.0f, 0x1p-24f, 0x1p-25f, std::nextafter(0x1p-25f, 1.0f),
                        0x1p-14f, std::numeric_limits<float>::denorm_min()}) {
    expect_fp16(x);
    expect_fp16(-x);
    expect_bf16(x);
    expect_bf16(-x);
  }
}

}  // namespace
}  // namespace llmtrain
