// Philox4x32-10, the counter-based generator behind every random number of the program.
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
//
// Randomness is indexed by meaning: a key says what is drawn (seed, purpose, name), a
// counter says which one (element, position in the global batch, step). Nothing depends
// on the layout, and there is no generator state to store beyond the seed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace llmtrain {

struct PhiloxKey {
  std::uint32_t low = 0, high = 0;
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key.low,
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key.high,
               static_cast<std::uint32_t>(a)};
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return counter;
}

// The key for `purpose` (such as "init" or "dropout") of the row or layer called `name`:
// FNV-1a over seed, purpose and name.
PhiloxKey philox_key(std::uint64_t seed, std::string_view purpose, std::string_view name);

// Four 32-bit draws of element group `element / 4`, at `position` in the global batch and
// `step`; draw e of element 4k+e is component e.
inline PhiloxBlock philox_at(PhiloxKey key, std::uint64_t group, std::uint32_t position,
                             std::uint32_t step) {
  return philox({static_cast<std::uint32_t>(group),
                 static_cast<std::uint32_t>(group >> 32), position, step},
                key);
}

// Uniform in (0, 1): the 23 high bits, centred (with 24 the largest would round to 1).
inline float uniform_float(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5f) * 0x1p-23f;
}

}  // namespace llmtrain
