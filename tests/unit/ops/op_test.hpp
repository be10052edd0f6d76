// What the tests of ops share: tensors on a device, and comparison with double
// references.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "llmtrain/device/context.hpp"
#include "support/reference_ops.hpp"

namespace llmtrain::ops {

using reference::Labels;
using reference::Values;

// An element type and the error it may cause, relative to the largest value of a tensor.
struct Precision {
  Dtype dtype;
  double tolerance;
};

inline void PrintTo(const Precision& precision, std::ostream* out) {
  *out << name(precision.dtype);
}

// f32: sums of n terms err by about sqrt(n) / 2 roundings of 6e-8; the shapes here have n
// of some hundreds, and a result goes through at most a few such sums: 2e-6 is 33
// roundings. 16 bits: sums are in f32, so what counts is that a result is rounded once or
// twice, by 2^-9 (bf16) or 2^-12 (fp16) of its power of two.
inline const std::vector<Precision> kPrecisions{
    {Dtype::f32, 2e-6}, {Dtype::bf16, 0x1p-8}, {Dtype::fp16, 0x1p-11}};

inline std::string precision_name(const testing::TestParamInfo<Precision>& info) {
  return name(info.param.dtype);
}

// A tensor that owns its memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Device& device, Shape shape, Dtype dtype = Dtype::f32)
      : buffer_(device.allocate(shape.count() * size_bytes(dtype), MemoryUse::workspace)),
        view_(buffer_.data(), dtype, shape) {}
  Tensor(Device& device, Shape shape, Dtype dtype, const Values& values)
      : Tensor(device, shape, dtype) {
    assign(values);
  }
  Tensor(Device& device, Shape shape, const Labels& values)
      : Tensor(device, shape, Dtype::i32) {
    std::copy(values.begin(), values.end(), view_.data<std::int32_t>());
  }

  operator TensorView() const { return view_; }
  const TensorView& view() const { return view_; }
  void assign(const Values& values) {
    require(static_cast<index_t>(values.size()) == view_.count(), "test: wrong size");
    with_type(view_.dtype(), [&]<class T>(TypeTag<T>) {
      for (index_t i = 0; i < view_.count(); ++i) {
        view_.data<T>()[i] = from_float<T>(static_cast<float>(values[i]));
      }
    });
  }
  Values values() const {
    Values result;
    with_type(view_.dtype(), [&]<class T>(TypeTag<T>) {
      for (index_t i = 0; i < view_.count(); ++i) {
        result.push_back(to_float(view_.data<T>()[i]));
      }
    });
    return result;
  }

 private:
  Buffer buffer_;
  TensorView view_;
};

inline bool same_bits(TensorView a, TensorView b) {
  require(a.dtype() == b.dtype() && is_floating(a.dtype()), "test: other dtypes");
  return with_type(a.dtype(), [&]<class T>(TypeTag<T>) {
    return a.bytes() == b.bytes() &&
           std::memcmp(a.data<T>(), b.data<T>(), static_cast<std::size_t>(a.bytes())) ==
               0;
  });
}

// `count` values, uniform in (-1, 1), that f32 represents; another stream for each
// `salt`.
inline Values random_values(index_t count, std::uint32_t salt) {
  Values values(static_cast<std::size_t>(count));
  for (index_t i = 0; i < count; ++i) {
    values[i] = 2.0f * uniform_float(philox_at({salt, 7}, i / 4, 0, 0)[i % 4]) - 1.0f;
  }
  return values;
}

inline Values scaled(Values values, double factor) {
  for (double& value : values) value = static_cast<float>(value * factor);
  return values;
}

inline Values sum_of(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Every element within tolerance times the largest magnitude of `expected`.
inline void expect_close(const Tensor& actual, const Values& expected, double tolerance,
                         const std::string& what = "") {
  const Values got = actual.values();
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0.0, worst = 0.0;
  std::size_t where = 0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - expected[i]);
    if (!(error <= worst)) {
      worst = error;
      where = i;
    }
  }
  EXPECT_TRUE(worst <= tolerance * largest)
      << what << ": element " << where << " is " << (got.empty() ? 0 : got[where])
      << ", expected " << (got.empty() ? 0 : expected[where]) << ", error " << worst
      << " of largest " << largest;
}

// `call` must throw Error with every one of `words` in its message.
template <class Call>
void expect_error(Call call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "no error for " << words.back();
}

class OpTest : public testing::TestWithParam<Precision> {
 protected:
  // Of the parameter's dtype.
  Tensor tensor(Shape shape) { return {device_, shape, GetParam().dtype}; }
  Tensor tensor(Shape shape, const Values& values) {
    return {device_, shape, GetParam().dtype, values};
  }
  Tensor floats(Shape shape) { return {device_, shape, Dtype::f32}; }
  Tensor floats(Shape shape, const Values& values) {
    return {device_, shape, Dtype::f32, values};
  }
  // As a tensor of the parameter's dtype holds them.
  Values rounded(const Values& values) {
    return tensor({static_cast<index_t>(values.size())}, values).values();
  }
  Tensor integers(Shape shape, const Labels& values) { return {device_, shape, values}; }
  Tensor random(Shape shape, std::uint32_t salt) {
    return tensor(shape, random_values(shape.count(), salt));
  }
  double tolerance() const { return GetParam().tolerance; }

  Device device_{DeviceKind::cpu};
  Arena saved_{device_, 0, MemoryUse::workspace};
  Arena scratch_{device_, index_t{64} << 20, MemoryUse::workspace};
  Context ctx_{device_, saved_, scratch_};
};

}  // namespace llmtrain::ops
