// CUDA's device functions that a thread executes alone: memory accesses, atomics, maths.
// Included by emulation.hpp. A function that is missing here is a compile error, never a
// silent difference.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdlib>

namespace emulation {

// Fences and atomics tell ThreadSanitizer what CUDA promises and no more: an atomic passes
// on what its thread wrote only if the thread has executed a __threadfence().
#ifdef __SANITIZE_THREAD__
void fence();
void before_atomic(void* address);
void after_atomic(void* address);
#else
inline void fence() {}
inline void before_atomic(void*) {}
inline void after_atomic(void*) {}
#endif

template <class T, class... Allowed>
concept OneOf = (std::same_as<T, Allowed> || ...);

using Word64 = unsigned long long;

// Replaces *address by compute(*address); returns what was there.
template <class T, class Compute>
T update(T* address, Compute compute) {
  before_atomic(address);
  const std::atomic_ref<T> target(*address);
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, compute(old), std::memory_order_relaxed)) {
  }
  after_atomic(address);
  return old;
}

}  // namespace emulation

// --- cached and streaming accesses ---
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldca(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcv(const T* address) {
  return *address;
}
template <class T>
void __stwb(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <class T>
void __stwt(T* address, std::type_identity_t<T> value) {
  *address = value;
}

// --- fences ---
inline void __threadfence() { emulation::fence(); }
inline void __threadfence_system() { emulation::fence(); }
inline void __threadfence_block() {}

// --- atomics: the types that CUDA has them for ---
template <emulation::OneOf<int, unsigned, emulation::Word64, float, double, __half,
                           __half2, __nv_bfloat16, __nv_bfloat162>
              T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) {
    if constexpr (std::same_as<T, int>) {  // wraps, as the hardware does
      return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
    } else {
      return static_cast<T>(old + value);
    }
  });
}
template <emulation::OneOf<int, unsigned> T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) {
    return static_cast<T>(static_cast<unsigned>(old) - static_cast<unsigned>(value));
  });
}
template <emulation::OneOf<int, unsigned, long long, emulation::Word64> T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) { return old < value ? value : old; });
}
template <emulation::OneOf<int, unsigned, long long, emulation::Word64> T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) { return value < old ? value : old; });
}
template <emulation::OneOf<int, unsigned, emulation::Word64> T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) { return old & value; });
}
template <emulation::OneOf<int, unsigned, emulation::Word64> T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) { return old | value; });
}
template <emulation::OneOf<int, unsigned, emulation::Word64> T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) { return old ^ value; });
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return emulation::update(address,
                           [&](unsigned old) { return old >= limit ? 0u : old + 1u; });
}
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return emulation::update(
      address, [&](unsigned old) { return old == 0 || old > limit ? limit : old - 1u; });
}
template <emulation::OneOf<int, unsigned, emulation::Word64, float> T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T) { return value; });
}
template <emulation::OneOf<int, unsigned, emulation::Word64, unsigned short> T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return emulation::update(address, [&](T old) { return old == expected ? value : old; });
}

// --- bits ---
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(emulation::Word64 x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<emulation::Word64>(a) * b >> 32);
}

// --- maths: exact where the hardware approximates ---
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
// The C library declares some of these names, so they cannot be functions.
#define rsqrtf(x) (1.0f / std::sqrt(static_cast<float>(x)))
#define __expf(x) std::exp(static_cast<float>(x))
#define __exp10f(x) std::pow(10.0f, static_cast<float>(x))
#define __logf(x) std::log(static_cast<float>(x))
#define __log2f(x) std::log2(static_cast<float>(x))
#define __sinf(x) std::sin(static_cast<float>(x))
#define __cosf(x) std::cos(static_cast<float>(x))
#define __powf(x, y) std::pow(static_cast<float>(x), static_cast<float>(y))

template <emulation::OneOf<int, unsigned, long, unsigned long, long long,
                           emulation::Word64, float, double>
              T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <emulation::OneOf<int, unsigned, long, unsigned long, long long,
                           emulation::Word64, float, double>
              T>
T max(T a, T b) {
  return a < b ? b : a;
}

[[noreturn]] inline void __trap() { std::abort(); }
