// The 16-bit floating-point types: storage only, arithmetic is in f32. Conversions have no
// branches, so that loops over them vectorise on every machine.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace llmtrain {

// 8 bits of exponent, 7 of mantissa: the upper half of an f32.
struct bf16 {
  std::uint16_t bits;
};

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa; largest finite value 65504.
struct fp16 {
  std::uint16_t bits;
};

constexpr float to_float(float x) { return x; }

constexpr float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

constexpr float to_float(fp16 x) {
  // Shifted into an f32's place the exponent is 112 too small; the product mends it for
  // normal and subnormal numbers alike. Infinity and NaN keep all exponent bits.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(x.bits & 0x7fff) << 13;
  const auto scaled =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t special = magnitude >= 0x0f800000 ? 0x7f800000 : 0;
  return std::bit_cast<float>(scaled | special |
                              static_cast<std::uint32_t>(x.bits & 0x8000) << 16);
}

// The nearest value, ties to even; beyond the largest finite value infinity; NaN stays NaN.
template <class T>
constexpr T from_float(float x);

template <>
constexpr float from_float<float>(float x) {
  return x;
}

template <>
constexpr bf16 from_float<bf16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t nan = bits >> 16 | 0x40;
  return {static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded)};
}

template <>
constexpr fp16 from_float<fp16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // Normal results: rebias the exponent, round at bit 13; carries go where they belong.
  const std::uint32_t normal =
      (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // Subnormal results: the addition of 1/2 makes the adder round at 2^-24.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  std::uint32_t result = magnitude < 0x38800000 ? subnormal : normal;
  result =
      magnitude >= 0x477ff000 ? 0x7c00 : result;  // 65520 and above round to infinity
  result = magnitude > 0x7f800000 ? 0x7e00 : result;
  return {static_cast<std::uint16_t>(result | (bits >> 16 & 0x8000))};
}

// The same value in another type, rounded where it has to be.
template <class To, class From>
constexpr To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;  // the very bits, of a NaN too
  } else {
    return from_float<To>(to_float(x));
  }
}

}  // namespace llmtrain
