// Warp functions: what they compute, planted bugs, and what must not be reported.
#include "selftest.hpp"

namespace emulation {
namespace {

constexpr unsigned kThreads = 64, kFull = 0xffffffff;

class Warps : public EmulationTest {
 protected:
  static std::vector<float> run(const NamedOrder& order, void (*kernel)(float*),
                                unsigned threads = kThreads) {
    use(order);
    const DeviceArray<float> out(threads);
    check(launch(kernel, {1, threads}, out.data()));
    return out.values();
  }
};
using WarpsDeathTest = Warps;

// --- shuffles ---

template <class T, class Shuffle>
__device__ void store(float* out, Shuffle shuffle) {
  out[threadIdx.x] = static_cast<float>(shuffle(static_cast<T>(threadIdx.x % 32)));
}
template <class T>
__global__ void shuffle_index(float* out) {
  store<T>(out, [](T x) { return __shfl_sync(kFull, x, 3); });
}
__global__ void shuffle_index_of_eight(float* out) {
  store<float>(out, [](float x) { return __shfl_sync(kFull, x, 11, 8); });
}
__global__ void shuffle_up(float* out) {
  store<int>(out, [](int x) { return __shfl_up_sync(kFull, x, 2); });
}
__global__ void shuffle_down(float* out) {
  store<double>(out, [](double x) { return __shfl_down_sync(kFull, x, 3, 16); });
}
__global__ void shuffle_xor(float* out) {
  store<unsigned>(out, [](unsigned x) { return __shfl_xor_sync(kFull, x, 5); });
}

TEST_F(Warps, ShufflesReadTheLaneTheyName) {
  for (const NamedOrder& order : kOrders) {
    SCOPED_TRACE(order.name);
    const auto index = run(order, shuffle_index<float>);
    EXPECT_EQ(run(order, shuffle_index<__nv_bfloat16>), index);
    EXPECT_EQ(run(order, shuffle_index<__half>), index);
    EXPECT_EQ(run(order, shuffle_index<long long>), index);
    const auto of_eight = run(order, shuffle_index_of_eight);
    const auto up = run(order, shuffle_up), down = run(order, shuffle_down);
    const auto exchanged = run(order, shuffle_xor);
    for (unsigned t = 0; t < kThreads; ++t) {
      const unsigned lane = t % 32;
      EXPECT_EQ(index[t], 3);
      EXPECT_EQ(of_eight[t], lane / 8 * 8 + 3);
      EXPECT_EQ(up[t], lane < 2 ? lane : lane - 2);
      EXPECT_EQ(down[t], lane % 16 + 3 < 16 ? lane + 3 : lane);
      EXPECT_EQ(exchanged[t], lane ^ 5);
    }
  }
}

// --- votes and reductions ---

__global__ void votes(float* out) {
  const bool third = threadIdx.x % 3 == 0;
  const unsigned ballot = __ballot_sync(kFull, third);
  const int any = __any_sync(kFull, threadIdx.x == 40);
  const int all = __all_sync(kFull, threadIdx.x < 32);
  out[threadIdx.x] = static_cast<float>(__popc(ballot) * 4 + any * 2 + all);
}
__global__ void reductions(float* out) {
  const int x = static_cast<int>(threadIdx.x) - 40;
  const unsigned u = threadIdx.x;
  const bool right = __reduce_min_sync(kFull, x) == (u < 32 ? -40 : -8) &&
                     __reduce_max_sync(kFull, x) == (u < 32 ? -9 : 23) &&
                     __reduce_add_sync(kFull, x) == (u < 32 ? -784 : 240) &&
                     __reduce_or_sync(kFull, u) == (u < 32 ? 31 : 63) &&
                     __reduce_and_sync(kFull, u) == (u < 32 ? 0 : 32) &&
                     __reduce_xor_sync(kFull, u) == 0;
  out[u] = right;
}

TEST_F(Warps, VotesAndReductionsSeeAllLanes) {
  for (const NamedOrder& order : kOrders) {
    SCOPED_TRACE(order.name);
    const auto voted = run(order, votes);
    EXPECT_EQ(voted[0], 11 * 4 + 0 + 1);
    EXPECT_EQ(voted[33], 11 * 4 + 2 + 0);
    EXPECT_EQ(run(order, reductions), std::vector<float>(kThreads, 1));
  }
}

// --- lanes that do not come ---

__global__ void exits_before_shuffle(float* out) {
  if (threadIdx.x == 7) return;
  out[threadIdx.x] = __shfl_sync(kFull, 1.0f, 0);
}
__global__ void exits_while_awaited(float* out) {
  if (threadIdx.x == 7) {
    __nanosleep(1);
    __nanosleep(1);
    return;
  }
  out[threadIdx.x] = __shfl_sync(kFull, 1.0f, 0);
}
__global__ void in_both_branches(float* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __shfl_sync(kFull, 1.0f, 0);
  } else {
    out[threadIdx.x] = __shfl_sync(kFull, 2.0f, 0);
  }
}
__global__ void not_in_its_mask(float* out) {
  out[threadIdx.x] = __shfl_sync(0x0000ffff, 1.0f, 0);
}
__global__ void reads_outside_its_mask(float* out) {
  const unsigned mask = threadIdx.x % 32 < 16 ? 0x0000ffff : 0xffff0000;
  out[threadIdx.x] = __shfl_sync(mask, 1.0f, 0);
}
__global__ void full_mask(float* out) {
  out[threadIdx.x] = __shfl_xor_sync(kFull, 1.0f, 1);
}

TEST_F(WarpsDeathTest, AbsentLanesAreReportedInEveryOrder) {
  // Places are listed by their lowest thread, so either may come first.
  const char* const kExited =
      "exited.*(exited: threads? 7.*warps_test.cpp:[0-9]+: in __shfl_sync|"
      "warps_test.cpp:[0-9]+: in __shfl_sync.*exited: threads? 7)";
  for (const NamedOrder& order : kOrders) {
    SCOPED_TRACE(order.name);
    EXPECT_DEATH(run(order, exits_before_shuffle), kExited);
    EXPECT_DEATH(run(order, exits_while_awaited), kExited);
    EXPECT_DEATH(run(order, in_both_branches),
                 "different warp functions.*warps_test.cpp:[0-9]+: in __shfl_sync.*"
                 "warps_test.cpp:[0-9]+: in __shfl_sync");
    EXPECT_DEATH(run(order, not_in_its_mask), "whose mask lacks it.*mask 0xffff\\)");
    EXPECT_DEATH(run(order, reads_outside_its_mask),
                 "reads from lane 0, which is not in");
  }
}

TEST_F(WarpsDeathTest, AMaskMustNotNameLanesTheBlockDoesNotHave) {
  EXPECT_DEATH(run(kForward, full_mask, 48), "never were.*thread");
}

// --- memory between lanes ---

template <bool kSync>
__global__ void exchange(float* out) {
  GPU_SHARED(float, values, [kThreads]);
  const unsigned t = threadIdx.x;
  values[t] = static_cast<float>(t);
  if constexpr (kSync) __syncwarp();
  out[t] = values[t ^ 1];
}
// A shuffle makes lanes meet, but orders none of their memory accesses.
__global__ void exchange_behind_shuffle(float* out) {
  GPU_SHARED(float, values, [kThreads]);
  const unsigned t = threadIdx.x;
  values[t] = static_cast<float>(t);
  __shfl_sync(kFull, 0, 0);
  out[t] = values[t ^ 1];
}

#ifdef __SANITIZE_THREAD__
TEST_F(Warps, MissingSyncwarpIsReported) {
  EXPECT_RACE(run(kForward, exchange<false>));
  EXPECT_RACE(run(kReverse, exchange_behind_shuffle));
}
#else
TEST_F(Warps, MissingSyncwarpIsWrongInEveryOrder) {
  for (const NamedOrder& order : kOrders)
    EXPECT_NE(run(order, exchange<false>), run(order, exchange<true>));
}
TEST_F(Warps, OnlyThreadSanitizerSeesThatAShuffleIsNoFence) {
  EXPECT_EQ(run(kForward, exchange_behind_shuffle), run(kForward, exchange<true>));
}
#endif

// --- what is right and must not be reported ---

__global__ void half_warps_in_two_branches(float* out) {
  GPU_SHARED(float, values, [kThreads]);
  const unsigned t = threadIdx.x;
  float x = static_cast<float>(t % 16);
  if (t % 32 < 16) {
    for (int k = 8; k > 0; k /= 2) x += __shfl_xor_sync(0x0000ffff, x, k);
  } else {
    for (int k = 8; k > 0; k /= 2) x += __shfl_xor_sync(0xffff0000, x, k);
    values[t] = x;
    __syncwarp(0xffff0000);
    x = values[t ^ 1];
  }
  out[t] = x;
}
__global__ void warps_at_their_own_pace(float* out) {
  float x = 0.0f;
  for (unsigned i = 0; i <= threadIdx.x / 32 * 5; ++i)
    x += static_cast<float>(__popc(__ballot_sync(kFull, i % 2 == 0)));
  __syncthreads();
  out[threadIdx.x] = x;
}

TEST_F(Warps, SoundKernelsAreNotReported) {
  for (const NamedOrder& order : kOrders) {
    SCOPED_TRACE(order.name);
    EXPECT_EQ(run(order, half_warps_in_two_branches), std::vector<float>(kThreads, 120));
    const auto pace = run(order, warps_at_their_own_pace);
    EXPECT_EQ(pace[0], 32);
    EXPECT_EQ(pace[32], 3 * 32);
    const auto exchanged = run(order, exchange<true>);
    for (unsigned t = 0; t < kThreads; ++t) EXPECT_EQ(exchanged[t], t ^ 1);
  }
}

}  // namespace
}  // namespace emulation
