// The draws of dropout, many at a time.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstring>

#include "llmtrain/ops/dropout.hpp"

namespace llmtrain::ops::cpu {

// 64-bit lanes of 32-bit draws, in the compiler's own vector extension (GCC and Clang).
inline constexpr int kWideLanes = 8;
using WideLanes = std::uint64_t __attribute__((vector_size(8 * kWideLanes)));
inline constexpr WideLanes kLaneNumbers{0, 1, 2, 3, 4, 5, 6, 7};
inline constexpr std::uint64_t kLowHalf = 0xFFFFFFFF;

// The 64-bit products of the lower halves with `factor`.
inline WideLanes product(WideLanes a, std::uint32_t factor) {
#if defined(__AVX512F__)
  // Compilers do not find this instruction; their 64 x 64 bits cost three times as much.
  return reinterpret_cast<WideLanes>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a),
                             _mm512_set1_epi64(static_cast<long long>(factor))));
#else
  return (a & kLowHalf) * factor;
#endif
}

// For each element the factor that dropout multiplies it by: 0 or 1 / (1 - probability).
class DropoutFactors {
 public:
  explicit DropoutFactors(const Dropout& dropout)
      : key_(dropout.key),
        step_(dropout.step),
        // uniform_float(draw) < p  <=>  (draw >> 9) + 1/2 < p 2^23, exactly.
        threshold_(static_cast<std::uint32_t>(
            std::ceil(static_cast<double>(dropout.probability) * 0x1p23 - 0.5))),
        scale_(1.0f / (1.0f - dropout.probability)) {}

  // factors[i], i in [0, count), of elements first + i of the sequence at `position`.
  void draw(float* factors, index_t first, index_t count, std::uint32_t position) const {
    auto group = static_cast<std::uint64_t>(first) / 4;
    index_t skip = first % 4;
    for (index_t done = 0; done < count; group += kGroups) {
      alignas(64) float block[4 * kGroups];
      if (skip == 0 && count - done >= 4 * kGroups) {
        draw_groups(factors + done, group, position);
        done += 4 * kGroups;
        continue;
      }
      draw_groups(block, group, position);
      for (; skip < 4 * kGroups && done < count; ++skip, ++done)
        factors[done] = block[skip];
      skip = 0;
    }
  }

 private:
  static constexpr int kGroups = 16;

  // The elements of `kGroups` groups: philox() in all lanes at once. A lane's upper half
  // may hold anything, for product() does not read it.
  void draw_groups(float* factors, std::uint64_t group, std::uint32_t position) const {
    static_assert(kGroups % kWideLanes == 0);
    for (int lane = 0; lane < kGroups; lane += kWideLanes) {
      WideLanes c0 = group + lane + kLaneNumbers, c1 = c0 >> 32;
      WideLanes c2 = WideLanes{} + position, c3 = WideLanes{} + step_;
      PhiloxKey key = key_;
      for (int round = 0; round < 10; ++round) {
        const WideLanes a = product(c0, 0xD2511F53), b = product(c2, 0xCD9E8D57);
        c0 = (b >> 32) ^ c1 ^ key.low;
        c2 = (a >> 32) ^ c3 ^ key.high;
        c1 = b;
        c3 = a;
        key.low += 0x9E3779B9;
        key.high += 0xBB67AE85;
      }
      store_factors(factors + 4 * lane, (c0 & kLowHalf) | (c1 << 32),
                    (c2 & kLowHalf) | (c3 << 32));
    }
  }

  // Each lane of `first` holds draws 0 and 1 of a group, each of `second` draws 2 and 3.
  void store_factors(float* factors, WideLanes first, WideLanes second) const {
    store_half(factors, __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11));
    store_half(factors + 2 * kWideLanes,
               __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15));
  }

  void store_half(float* factors, WideLanes lanes) const {
    using Draws = std::uint32_t __attribute__((vector_size(sizeof(WideLanes))));
    using Factors = float __attribute__((vector_size(sizeof(WideLanes))));
    const auto draws = reinterpret_cast<Draws>(lanes) >> 9;
    const Factors result = draws < threshold_ ? Factors{} : Factors{} + scale_;
    std::memcpy(factors, &result, sizeof result);
  }

  PhiloxKey key_;
  std::uint32_t step_;
  std::uint32_t threshold_;
  float scale_;
};

}  // namespace llmtrain::ops::cpu
