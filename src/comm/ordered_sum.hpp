// Sums over ranks: in rank order, in f32, rounded once to the element type.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "llmtrain/core/types.hpp"
#include "llmtrain/tensor/half.hpp"

namespace llmtrain {

// Every out[i] = sources[0][i] + sources[1][i] + ..., in that order; outs may be among the
// sources. A group of elements stays in registers while the sources pass by.
template <class T>
void sum_in_order(std::span<std::byte* const> outs,
                  std::span<const std::byte* const> sources, index_t count) {
  constexpr index_t kGroup = 64;
  // Bytes to prefetch, for the CPU's own prefetch ends with the page; to write, for most
  // sources are outs too.
  constexpr std::size_t kAhead = 4096;
  const auto add_group = [&](index_t begin, auto elements) {
    float sums[kGroup];
    const auto source = [&](std::size_t s) {
      const T* const x = reinterpret_cast<const T*>(sources[s]) + begin;
      for (std::size_t byte = 0; byte < sizeof(T) * kGroup; byte += 64) {
        __builtin_prefetch(reinterpret_cast<const std::byte*>(x) + kAhead + byte, 1);
      }
      return x;
    };
    const T* x = source(0);
    for (index_t i = 0; i < elements; ++i) sums[i] = to_float(x[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      x = source(s);
      for (index_t i = 0; i < elements; ++i) sums[i] += to_float(x[i]);
    }
    T rounded[kGroup];
    for (index_t i = 0; i < elements; ++i) rounded[i] = from_float<T>(sums[i]);
    for (std::byte* const to : outs) {
      T* const out = reinterpret_cast<T*>(to) + begin;
      for (index_t i = 0; i < elements; ++i) out[i] = rounded[i];
    }
  };
  index_t begin = 0;
  for (; begin + kGroup <= count; begin += kGroup) {
    add_group(begin, std::integral_constant<index_t, kGroup>{});
  }
  if (begin < count) add_group(begin, count - begin);
}

}  // namespace llmtrain
