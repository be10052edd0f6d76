// Reductions over the threads of a block, in a fixed order.
#pragma once

#include "cuda/gpu.hpp"

namespace llmtrain::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffff;

// Combine(a, b) of all lanes' values; every lane gets it. `exchange(value, lanes)` is the
// value of the lane that differs in these bits.
template <class Value, class Exchange, class Combine>
__device__ Value warp_reduce(Value value, Exchange exchange, Combine combine) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value = combine(value, exchange(value, lanes));
  return value;
}

// The same over a one-dimensional block of whole warps. `slots` is shared memory of 32
// values that nothing else uses: no barrier follows.
template <class Value, class Exchange, class Combine>
__device__ Value block_reduce(Value value, Value neutral, Value* slots, Exchange exchange,
                              Combine combine) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, exchange, combine);
  if (lane == 0) slots[warp] = value;
  __syncthreads();
  return warp_reduce(lane < warps ? slots[lane] : neutral, exchange, combine);
}

__device__ inline float block_sum(float value, float* slots) {
  return block_reduce(
      value, 0.0f, slots,
      [](float x, int lanes) { return __shfl_xor_sync(kAllLanes, x, lanes); },
      [](float a, float b) { return a + b; });
}

}  // namespace llmtrain::cuda
