// Element types.
#pragma once

#include <cstdint>

#include "llmtrain/core/types.hpp"

namespace llmtrain {

enum class Dtype { f32, i32 };

constexpr index_t size_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::i32:
      return 4;
  }
  return 0;
}

constexpr const char* name(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
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
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};

}  // namespace llmtrain
