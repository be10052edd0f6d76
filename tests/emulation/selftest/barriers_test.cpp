// Barriers of a block: planted bugs, each with the mode that must catch it.
#include "selftest.hpp"

namespace emulation {
namespace {

constexpr unsigned kThreads = 128;

class Barriers : public EmulationTest {
 protected:
  // The first output is the kernel's result under `order`.
  static std::vector<float> run(const NamedOrder& order,
                                void (*kernel)(float*, const float*, unsigned),
                                unsigned shift) {
    use(order);
    const DeviceArray<float> out(kThreads), in(counting(kThreads));
    check(launch(kernel, {1, kThreads}, out.data(), in.data(), shift));
    return out.values();
  }
  static bool is_right(const NamedOrder& order,
                       void (*kernel)(float*, const float*, unsigned), unsigned shift,
                       void (*reference)(float*, const float*, unsigned)) {
    return run(order, kernel, shift) == run(order, reference, shift);
  }
};

// --- a read of what another thread writes, without a barrier between ---

template <bool kBarrier>
__global__ void read_other(float* out, const float* in, unsigned shift) {
  GPU_SHARED(float, values, [kThreads]);
  const unsigned t = threadIdx.x;
  values[t] = in[t];
  if constexpr (kBarrier) __syncthreads();
  out[t] = values[(t + shift) % kThreads];
}

template <bool kBarrier>
__global__ void write_twice(float* out, const float* in, unsigned shift) {
  GPU_SHARED(float, values, [kThreads]);
  const unsigned t = threadIdx.x;
  float sum = 0.0f;
  for (int round = 0; round < 3; ++round) {
    values[t] = in[t] + static_cast<float>(round);
    __syncthreads();
    sum += values[(t + shift) % kThreads];
    if constexpr (kBarrier) __syncthreads();
  }
  out[t] = sum;
}

constexpr unsigned kAbove = 1, kBelow = kThreads - 1;

#ifdef __SANITIZE_THREAD__
// In every order, also in those where the results are right.
TEST_F(Barriers, MissingOnesAreReportedInAnyOrder) {
  EXPECT_RACE(run(kForward, read_other<false>, kAbove));
  EXPECT_RACE(run(kForward, read_other<false>, kBelow));
  EXPECT_RACE(run(kReverse, write_twice<false>, kAbove));
  EXPECT_RACE(run(kReverse, write_twice<false>, kBelow));
}
#else
// Threads run from barrier to barrier one after another: the one order hides a read of
// what an earlier thread wrote, the other a read of what a later one will write.
TEST_F(Barriers, MissingAfterAWriteIsWrongInTheOrderAgainstTheRead) {
  EXPECT_FALSE(is_right(kForward, read_other<false>, kAbove, read_other<true>));
  EXPECT_FALSE(is_right(kReverse, read_other<false>, kBelow, read_other<true>));
}

TEST_F(Barriers, MissingBeforeTheNextWriteIsWrongInTheOrderAgainstTheRead) {
  EXPECT_FALSE(is_right(kForward, write_twice<false>, kBelow, write_twice<true>));
  EXPECT_FALSE(is_right(kReverse, write_twice<false>, kAbove, write_twice<true>));
}

TEST_F(Barriers, MissingOnesAreWrongWhenShuffled) {
  for (const unsigned shift : {kAbove, kBelow}) {
    for (const NamedOrder& order : kOrders) {
      if (order.order != Order::shuffled) continue;
      EXPECT_FALSE(is_right(order, read_other<false>, shift, read_other<true>));
      EXPECT_FALSE(is_right(order, write_twice<false>, shift, write_twice<true>));
    }
  }
}
#endif

TEST_F(Barriers, WhereTheyArePresentNoOrderMatters) {
  for (const NamedOrder& order : kOrders) {
    SCOPED_TRACE(order.name);
    EXPECT_EQ(run(order, read_other<true>, kAbove)[5], 6.0f);
    EXPECT_EQ(run(order, read_other<true>, kBelow)[5], 4.0f);
    EXPECT_EQ(run(order, write_twice<true>, kAbove)[5], 3 * 6.0f + 3);
    EXPECT_EQ(run(order, write_twice<true>, kBelow)[5], 3 * 4.0f + 3);
  }
}

// --- barriers that not all threads reach ---

__global__ void exits_early(float* out, const float* in, unsigned early) {
  if (threadIdx.x == early) return;
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

__global__ void two_places(float* out, const float* in, unsigned split) {
  if (threadIdx.x < split) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = in[threadIdx.x];
}

__global__ void two_kinds(float* out, const float* in, unsigned split) {
  // clang-format off
  threadIdx.x < split ? __syncthreads() : static_cast<void>(__syncthreads_or(1));
  // clang-format on
  out[threadIdx.x] = in[threadIdx.x];
}

__global__ void skipped_by_some(float* out, const float* in, unsigned split) {
  if (threadIdx.x < split) __syncthreads();
  if (threadIdx.x >= split) __shfl_sync(0xffffffff, 1, 0);
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

__global__ void barrier_or_shuffle(float* out, const float* in, unsigned split) {
  if (threadIdx.x < split) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_sync(0xffffffff, in[0], 0);
  }
}

using BarriersDeathTest = Barriers;

TEST_F(BarriersDeathTest, EarlyExitNamesWhoExited) {
  for (const NamedOrder& order : kOrders) {
    EXPECT_DEATH(run(order, exits_early, 5),
                 "exited before a barrier.*barriers_test.cpp:[0-9]+: in __syncthreads of "
                 ".*exits_early.*: threads 0-4, 6-127.*exited: thread 5");
  }
}

TEST_F(BarriersDeathTest, DifferentPlacesAreNamed) {
  for (const NamedOrder& order : kOrders) {
    EXPECT_DEATH(run(order, two_places, 32),
                 "different barriers.*barriers_test.cpp:[0-9]+: in __syncthreads .*: "
                 "threads 0-31.*barriers_test.cpp:[0-9]+: in __syncthreads .*: "
                 "threads 32-127");
  }
}

TEST_F(BarriersDeathTest, DifferentKindsInOneLineAreNamed) {
  EXPECT_DEATH(run(kForward, two_kinds, 64),
               "different barriers.*__syncthreads .*0-63.*__syncthreads_or .*64-127");
}

TEST_F(BarriersDeathTest, SomeThreadsOneBarrierBehind) {
  EXPECT_DEATH(run(kReverse, skipped_by_some, 32), "different barriers");
}

TEST_F(BarriersDeathTest, SomeLanesAtABarrierAndOthersInAShuffleIsADeadlock) {
  for (const NamedOrder& order : kOrders) {
    EXPECT_DEATH(
        run(order, barrier_or_shuffle, 16),
        "deadlock.*__syncthreads.*threads 0-15.*__shfl_sync.*0xffffffff.*threads "
        "16-31");
  }
}

// --- barriers that count ---

__global__ void votes(float* out, const float* in, unsigned above) {
  const int vote = in[threadIdx.x] > static_cast<float>(above);
  const int count = __syncthreads_count(vote);
  const int any = __syncthreads_or(vote);
  const int all = __syncthreads_and(vote);
  out[threadIdx.x] = static_cast<float>(count * 4 + any * 2 + all);
}

TEST_F(Barriers, CountTheirPredicates) {
  for (const NamedOrder& order : kOrders) {
    EXPECT_EQ(run(order, votes, 99), std::vector<float>(kThreads, 28 * 4 + 2));
    EXPECT_EQ(run(order, votes, 127), std::vector<float>(kThreads, 0));
  }
}

// --- waiting for another thread of the block ---

__global__ void waits_for_flag(float* out, const float* in, unsigned setter) {
  GPU_SHARED(int, flag, [1]);
  if (threadIdx.x == 0) flag[0] = 0;
  __syncthreads();
  if (threadIdx.x == setter) atomicExch(&flag[0], 1);
  while (atomicAdd(&flag[0], 0) == 0) __nanosleep(20);
  out[threadIdx.x] = in[threadIdx.x];
}

TEST_F(Barriers, ASleepingThreadLetsTheOthersRun) {
  for (const NamedOrder& order : kOrders)
    EXPECT_EQ(run(order, waits_for_flag, 77), counting(kThreads));
}

#ifndef __SANITIZE_THREAD__  // a million turns take long there
TEST_F(BarriersDeathTest, SleepingForNothingIsReported) {
  EXPECT_DEATH(run(kForward, waits_for_flag, kThreads), "livelock");
}
#endif

}  // namespace
}  // namespace emulation
