// What the tests of kernels share: tensors of every element type on the emulated device,
// and comparison with references in double. Tests of long rows are named Long..., and are
// left out under ThreadSanitizer.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "llmtrain/core/philox.hpp"
#include "selftest/selftest.hpp"
#include "support/reference_ops.hpp"

namespace llmtrain::cuda {

using emulation::check;
using emulation::DeviceArray;
using reference::Labels;
using reference::Values;

using ElementTypes = testing::Types<float, __nv_bfloat16, __half>;

// The largest error of one rounding to T, relative to the value.
template <class T>
constexpr double kRounding = 0x1p-24;
template <>
constexpr double kRounding<__nv_bfloat16> = 0x1p-8;
template <>
constexpr double kRounding<__half> = 0x1p-11;

// f32 sums of some hundreds of terms: 33 roundings.
constexpr double kSumTolerance = 2e-6;

template <class T>
std::vector<T> rounded(const Values& values) {
  std::vector<T> result;
  for (const double value : values)
    result.push_back(static_cast<T>(static_cast<float>(value)));
  return result;
}
template <class T>
Values widened(const std::vector<T>& values) {
  Values result;
  for (const T value : values)
    result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

// Uniform in (-1, 1) and representable in T; another stream for each `salt`.
template <class T>
std::vector<T> random(index_t count, std::uint32_t salt) {
  Values values(static_cast<std::size_t>(count));
  for (index_t i = 0; i < count; ++i)
    values[i] = 2.0f * uniform_float(philox_at({salt, 7}, i / 4, 0, 0)[i % 4]) - 1.0f;
  return rounded<T>(values);
}

// Every element within `tolerance` times the largest magnitude of `expected`.
template <class T>
void expect_close(const DeviceArray<T>& actual, const Values& expected, double tolerance,
                  const char* what) {
  const Values got = widened(actual.values());
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::fabs(got[i] - expected[i]) <= tolerance * largest)
        << what << ": element " << i << " is " << got[i] << ", expected " << expected[i];
  }
}

template <class T>
class KernelTest : public emulation::EmulationTest {
 protected:
  emulation::Stream stream_;
};

}  // namespace llmtrain::cuda
