// What the emulator's own tests share. Kernels stand beside the tests that run them; the
// same files make three programs: plain, with AddressSanitizer and
// UndefinedBehaviorSanitizer, with ThreadSanitizer (which ends a process at the first race
// by exit status 66).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "cuda/launch.hpp"
#include "runtime.hpp"
#include "sanitizers.hpp"

namespace emulation {

using llmtrain::cuda::launch;

inline void check(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

// An array in device memory; not initialised unless from values.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    upload(values);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t count() const { return count_; }
  void upload(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  // After all streams have finished.
  std::vector<T> values() const {
    std::vector<T> result(count_);
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(handle_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

struct NamedOrder {
  const char* name;
  Order order;
  std::uint64_t seed;
};
constexpr NamedOrder kForward{"forward", Order::forward, 0};
constexpr NamedOrder kReverse{"reverse", Order::reverse, 0};
constexpr NamedOrder kOrders[] = {kForward,
                                  kReverse,
                                  {"shuffled:1", Order::shuffled, 1},
                                  {"shuffled:2", Order::shuffled, 2},
                                  {"shuffled:3", Order::shuffled, 3}};

// Restores the process's order and stream mode.
class EmulationTest : public testing::Test {
 protected:
  // After a fork ThreadSanitizer ignores the main thread if there are others, and takes
  // fibres for others: there a death test must be a new process.
  EmulationTest() {
    GTEST_FLAG_SET(death_test_style, has_tsan() ? "threadsafe" : "fast");
  }
  ~EmulationTest() override { schedule() = before_; }
  static void use(const NamedOrder& order) { set_order(order.order, order.seed); }

 private:
  Schedule before_ = schedule();
};

inline std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

// What only ThreadSanitizer finds; elsewhere the statement is not compiled.
#ifdef __SANITIZE_THREAD__
#define EXPECT_RACE(statement) \
  EXPECT_EXIT(statement, testing::ExitedWithCode(66), "data race")
#endif

}  // namespace emulation
