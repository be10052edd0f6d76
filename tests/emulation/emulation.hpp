// CUDA C++ for kernels that are compiled as plain C++: qualifiers, indices, barriers, warp
// collectives. Each CUDA thread is a fibre; the threads of a block take turns wherever one
// waits, the blocks of a grid run one after another. Kernels include this through
// cuda/gpu.hpp.
//
// Goals: every misuse of a barrier or a warp collective is reported with the lines where
// the threads of the block stand; memory errors and races are left to AddressSanitizer and
// ThreadSanitizer, which understand the fibres.
// Not offered: textures, cooperative groups, clusters, tensor cores, __activemask(),
// __constant__ and __device__ variables (nothing would keep the host from using them).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>
#include <concepts>
#include <cstring>

#include "engine.hpp"

// The headers leave the other qualifiers empty where nvcc does not compile.
#undef __shared__
#define __shared__ _Pragma("GCC error \"write GPU_SHARED or GPU_DYNAMIC_SHARED\"")
#undef __constant__
#define __constant__ _Pragma("GCC error \"write a kernel argument or constexpr\"")
#undef __launch_bounds__
#define __launch_bounds__(...)

namespace emulation {

// What a register of a warp can hold.
template <class T>
concept LaneValue = std::is_trivially_copyable_v<T> && sizeof(T) <= 8;

template <LaneValue T>
std::uint64_t to_bits(const T& value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <LaneValue T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

template <class T>
concept ReducedInteger = std::same_as<T, int> || std::same_as<T, unsigned>;

template <ReducedInteger T, class Operation>
T reduce_integers(Call call, unsigned mask, T value, Operation) {
  return from_bits<T>(
      reduce(call, mask, to_bits(value), [](std::uint64_t a, std::uint64_t b) {
        return to_bits(static_cast<T>(Operation{}(from_bits<T>(a), from_bits<T>(b))));
      }));
}

}  // namespace emulation

#define threadIdx (*::emulation::thread_index)
#define blockIdx (::emulation::block_index)
#define blockDim (::emulation::block_dim)
#define gridDim (::emulation::grid_dim)
constexpr int warpSize = 32;

// --- barriers ---
inline void __syncthreads(emulation::Site site = emulation::Site::current()) {
  emulation::barrier({"__syncthreads", site}, false);
}
inline int __syncthreads_count(int predicate,
                               emulation::Site site = emulation::Site::current()) {
  return static_cast<int>(
      emulation::barrier({"__syncthreads_count", site}, predicate != 0));
}
inline int __syncthreads_or(int predicate,
                            emulation::Site site = emulation::Site::current()) {
  return emulation::barrier({"__syncthreads_or", site}, predicate != 0) > 0;
}
inline int __syncthreads_and(int predicate,
                             emulation::Site site = emulation::Site::current()) {
  return emulation::barrier({"__syncthreads_and", site}, predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffff,
                       emulation::Site site = emulation::Site::current()) {
  emulation::sync_warp({"__syncwarp", site}, mask);
}
inline void __nanosleep(unsigned) { emulation::sleep(); }

// --- shuffles: lanes exchange within groups of `width`, a power of two ---
template <emulation::LaneValue T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              emulation::Site site = emulation::Site::current()) {
  const unsigned group = emulation::lane() & ~(width - 1u);
  return emulation::from_bits<T>(
      emulation::shuffle({"__shfl_sync", site}, mask, emulation::to_bits(value),
                         group | (static_cast<unsigned>(source) & (width - 1u))));
}
template <emulation::LaneValue T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  emulation::Site site = emulation::Site::current()) {
  const unsigned self = emulation::lane();
  const unsigned source = self ^ static_cast<unsigned>(lane_mask);
  // CUDA lets a lane read lower groups, and keeps its own value instead of higher ones.
  const bool readable = source < (self & ~(width - 1u)) + width;
  return emulation::from_bits<T>(emulation::shuffle({"__shfl_xor_sync", site}, mask,
                                                    emulation::to_bits(value),
                                                    readable ? source : self));
}
template <emulation::LaneValue T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 emulation::Site site = emulation::Site::current()) {
  const unsigned self = emulation::lane();
  const bool readable = (self & (width - 1u)) >= delta;
  return emulation::from_bits<T>(emulation::shuffle({"__shfl_up_sync", site}, mask,
                                                    emulation::to_bits(value),
                                                    readable ? self - delta : self));
}
template <emulation::LaneValue T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   emulation::Site site = emulation::Site::current()) {
  const unsigned self = emulation::lane();
  const bool readable = (self & (width - 1u)) + delta < static_cast<unsigned>(width);
  return emulation::from_bits<T>(emulation::shuffle({"__shfl_down_sync", site}, mask,
                                                    emulation::to_bits(value),
                                                    readable ? self + delta : self));
}

// --- votes ---
namespace emulation {
inline unsigned ballot(Call call, unsigned mask, bool predicate) {
  const std::uint64_t bit = predicate ? std::uint64_t{1} << lane() : 0;
  return static_cast<unsigned>(
      reduce(call, mask, bit, [](std::uint64_t a, std::uint64_t b) { return a | b; }));
}
}  // namespace emulation
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              emulation::Site site = emulation::Site::current()) {
  return emulation::ballot({"__ballot_sync", site}, mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate,
                      emulation::Site site = emulation::Site::current()) {
  return emulation::ballot({"__any_sync", site}, mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      emulation::Site site = emulation::Site::current()) {
  return emulation::ballot({"__all_sync", site}, mask, predicate == 0) == 0;
}

// --- reductions of integers ---
template <class T>
T __reduce_add_sync(unsigned mask, T value,
                    emulation::Site site = emulation::Site::current()) {
  struct Add {  // of the bits, as the hardware adds: signed overflow wraps
    T operator()(T a, T b) const {
      return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
    }
  };
  return emulation::reduce_integers({"__reduce_add_sync", site}, mask, value, Add{});
}
template <class T>
T __reduce_min_sync(unsigned mask, T value,
                    emulation::Site site = emulation::Site::current()) {
  struct Min {
    T operator()(T a, T b) const { return a < b ? a : b; }
  };
  return emulation::reduce_integers({"__reduce_min_sync", site}, mask, value, Min{});
}
template <class T>
T __reduce_max_sync(unsigned mask, T value,
                    emulation::Site site = emulation::Site::current()) {
  struct Max {
    T operator()(T a, T b) const { return a < b ? b : a; }
  };
  return emulation::reduce_integers({"__reduce_max_sync", site}, mask, value, Max{});
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value,
                                  emulation::Site site = emulation::Site::current()) {
  return emulation::reduce_integers({"__reduce_and_sync", site}, mask, value,
                                    std::bit_and<unsigned>{});
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 emulation::Site site = emulation::Site::current()) {
  return emulation::reduce_integers({"__reduce_or_sync", site}, mask, value,
                                    std::bit_or<unsigned>{});
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value,
                                  emulation::Site site = emulation::Site::current()) {
  return emulation::reduce_integers({"__reduce_xor_sync", site}, mask, value,
                                    std::bit_xor<unsigned>{});
}

#include "intrinsics.hpp"
