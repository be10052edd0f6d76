// Data of each rank whose sums show the order in which they were taken.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "llmtrain/tensor/half.hpp"
#include "llmtrain/tensor/tensor_view.hpp"

namespace llmtrain {

// Element i of rank r: magnitudes from 1e-3 to 1e4, so that float addition does not
// commute across the ranks. Not inlined, or product and sum would fuse and round once.
[[gnu::noinline]] inline float spread(int r, index_t i) {
  constexpr float kPowers[] = {1e-3f, 1e-2f, 1e-1f, 1, 1e1f, 1e2f, 1e3f, 1e4f};
  const auto bits =
      static_cast<std::uint32_t>(i * 2654435761u + static_cast<unsigned>(r) * 40503u);
  const float mantissa = static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f;
  return mantissa * kPowers[bits & 7u];
}

template <class T>
T element(int r, index_t i, int size);

template <>
inline float element<float>(int r, index_t i, int) {
  return spread(r, i);
}

// Seldom would the order of the additions in f32 be seen in 16 bits. So two ranks hold
// large values that cancel, and when the others' small ones are added tells what is left
// of them. Every fourth element overflows fp16, or would on the way.
template <class T>
requires(sizeof(T) == 2) T element(int r, index_t i, int size) {
  if (i % 4 == 0) return from_float<T>(spread(r, i));
  if (i % 4 == 1) return from_float<T>((r + i / 4) % 3 == 2 ? -60000.0f : 60000.0f);
  const int plus = static_cast<int>(i / 4 % size), minus = (plus + 1) % size;
  if (r == plus) return from_float<T>(40000.0f);
  if (r == minus) return from_float<T>(-40000.0f);
  return from_float<T>(std::abs(spread(r, i)) < 1 ? spread(r, i) : 0.01f);
}

template <class T>
T sum_in_rank_order(int size, index_t i) {
  float sum = to_float(element<T>(0, i, size));
  for (int r = 1; r < size; ++r) sum += to_float(element<T>(r, i, size));
  return from_float<T>(sum);
}

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Counts the elements that differ; an early return would leave the other ranks waiting.
template <class T, class Expected>
index_t wrong_elements(const T* x, index_t n, Expected expected) {
  index_t wrong = 0;
  for (index_t i = 0; i < n; ++i) wrong += !same<T>(x[i], expected(i));
  return wrong;
}

template <class T>
TensorView view(std::vector<T>& x) {
  return {x.data(), DtypeOf<T>::value, Shape{static_cast<index_t>(x.size())}};
}

}  // namespace llmtrain
