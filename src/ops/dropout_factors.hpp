// The draws of dropout, many at a time.
#pragma once

#include <cmath>

#include "llmtrain/ops/dropout.hpp"

namespace llmtrain::ops::cpu {

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

  // The elements of `kGroups` groups; the generator runs in all lanes at once.
  void draw_groups(float* factors, std::uint64_t group, std::uint32_t position) const {
#pragma omp simd
    for (int lane = 0; lane < kGroups; ++lane) {
      const PhiloxBlock draws = philox_at(key_, group + lane, position, step_);
      for (int e = 0; e < 4; ++e) {
        factors[4 * lane + e] = (draws[e] >> 9) < threshold_ ? 0.0f : scale_;
      }
    }
  }

  PhiloxKey key_;
  std::uint32_t step_;
  std::uint32_t threshold_;
  float scale_;
};

}  // namespace llmtrain::ops::cpu
