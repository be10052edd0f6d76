// The integer type of every size, count and offset.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llmtrain {

using index_t = std::int64_t;

constexpr index_t divide_up(index_t a, index_t b) { return (a + b - 1) / b; }
constexpr index_t round_up(index_t a, index_t multiple) {
  return divide_up(a, multiple) * multiple;
}

}  // namespace llmtrain
