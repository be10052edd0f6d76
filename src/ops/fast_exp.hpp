// exp for loops that the compiler vectorises.
//
// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; the reduction subtracts n
// ln 2 in two parts (Cody & Waite 1980, ch. 6), exp(r) is a polynomial of degree 6.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace llmtrain::ops::cpu {

// Relative error below 2e-7 for x in [-87.3, 88.3]; 0 below, infinity above; NaN stays
// NaN.
inline float fast_exp(float x) {
  constexpr float kLowest = -87.3f, kHighest = 88.3f;
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  // Adding it leaves the rounded integer in the low bits of the sum.
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
  const float clamped = x < kLowest ? kLowest : (x > kHighest ? kHighest : x);
  const float shifted = clamped * kLog2e + kRounder;
  const float n = shifted - kRounder;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  // (exp(r) - 1 - r) / r^2 interpolated at Chebyshev nodes; relative error 1e-8 of exp.
  float p = 1.392625083e-3f;
  p = p * r + 8.363232884e-3f;
  p = p * r + 4.166655421e-2f;
  p = p * r + 1.666657667e-1f;
  p = p * r + 5.0e-1f;
  p = (p * r) * r + r;
  const auto exponent = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u;
  const float result = (p + 1.0f) * std::bit_cast<float>(exponent);
  return x < kLowest ? 0.0f
                     : (x > kHighest ? std::numeric_limits<float>::infinity() : result);
}

}  // namespace llmtrain::ops::cpu
