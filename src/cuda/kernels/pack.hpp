// Several neighbouring values of a tensor as f32 in registers, moved by 16-byte accesses.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda/gpu.hpp"

namespace llmtrain::cuda {

constexpr int kAccessBytes = 16;

// How many values of type T one access moves.
template <class T>
constexpr int kPack = kAccessBytes / static_cast<int>(sizeof(T));

template <int count>
struct Floats {
  float values[count];

  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};

// Whether packs can be read from and written to all of these; null pointers can.
template <class... Pointers>
bool are_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % kAccessBytes == 0) && ...);
}

// `count` is 1 or a multiple of kPack<T>; then `from` must be aligned to 16 bytes.
template <int count, class T>
__device__ Floats<count> load(const T* from) {
  Floats<count> result;
  if constexpr (count == 1) {
    result[0] = static_cast<float>(*from);
  } else {
#pragma unroll
    for (int begin = 0; begin < count; begin += kPack<T>) {
      const int4 bits = *reinterpret_cast<const int4*>(from + begin);
      T values[kPack<T>];
      std::memcpy(static_cast<void*>(values), &bits, kAccessBytes);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i)
        result[begin + i] = static_cast<float>(values[i]);
    }
  }
  return result;
}

template <int count, class T>
__device__ void store(T* to, const Floats<count>& from) {
  if constexpr (count == 1) {
    *to = static_cast<T>(from[0]);
  } else {
#pragma unroll
    for (int begin = 0; begin < count; begin += kPack<T>) {
      T values[kPack<T>];
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) values[i] = static_cast<T>(from[begin + i]);
      int4 bits;
      std::memcpy(&bits, values, kAccessBytes);
      *reinterpret_cast<int4*>(to + begin) = bits;
    }
  }
}

}  // namespace llmtrain::cuda
