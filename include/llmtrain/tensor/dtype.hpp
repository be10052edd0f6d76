// Element types.
#pragma once

#include <cstdint>

#include "llmtrain/core/error.hpp"
#include "llmtrain/core/types.hpp"
#include "llmtrain/tensor/half.hpp"

namespace llmtrain {

enum class Dtype { f32, bf16, fp16, i32 };

constexpr index_t size_bytes(Dtype dtype) {
  return dtype == Dtype::bf16 || dtype == Dtype::fp16 ? 2 : 4;
}

constexpr bool is_floating(Dtype dtype) { return dtype != Dtype::i32; }

constexpr const char* name(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::fp16:
      return "fp16";
    case Dtype::i32:
      return "i32";
  }
  return "?";
}

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<fp16> {
  static constexpr Dtype value = Dtype::fp16;
};
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};

template <class T>
struct TypeTag {
  using type = T;
};

// Calls work(TypeTag<T>) with the element type of a floating-point dtype:
//   with_type(x.dtype(), [&]<class T>(TypeTag<T>) { kernel(x.data<T>()); });
template <class Work>
decltype(auto) with_type(Dtype dtype, Work&& work) {
  switch (dtype) {
    case Dtype::f32:
      return work(TypeTag<float>{});
    case Dtype::bf16:
      return work(TypeTag<bf16>{});
    case Dtype::fp16:
      return work(TypeTag<fp16>{});
    case Dtype::i32:
      break;
  }
  fail(Status::internal, "no floating-point kernel for ", name(dtype));
}

// The same for two: work(TypeTag<A>, TypeTag<B>).
template <class Work>
decltype(auto) with_types(Dtype a, Dtype b, Work&& work) {
  return with_type(a, [&]<class A>(TypeTag<A> first) -> decltype(auto) {
    return with_type(b, [&]<class B>(TypeTag<B> second) -> decltype(auto) {
      return work(first, second);
    });
  });
}

}  // namespace llmtrain
