// Blocks of one grid: their order, atomics, and races between them.
#include "selftest.hpp"

namespace emulation {
namespace {

constexpr unsigned kBlocks = 6, kThreads = 64;

class Blocks : public EmulationTest {};

// --- indices ---

__global__ void write_indices(int* out) {
  const dim3 g = gridDim, b = blockDim;
  const unsigned block = (blockIdx.z * g.y + blockIdx.y) * g.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * b.y + threadIdx.y) * b.x + threadIdx.x;
  out[block * b.x * b.y * b.z + thread] = static_cast<int>(block * 1000 + thread);
}

TEST_F(Blocks, EveryThreadOfEveryBlockRunsOnce) {
  for (const NamedOrder& order : kOrders) {
    use(order);
    const DeviceArray<int> out(12 * 24);
    check(launch(write_indices, {{2, 3, 2}, {4, 2, 3}}, out.data()));
    const auto values = out.values();
    for (int i = 0; i < 12 * 24; ++i) EXPECT_EQ(values[i], i / 24 * 1000 + i % 24);
  }
}

__global__ void last_block(unsigned* last) {
  if (threadIdx.x == 0) atomicExch(last, blockIdx.x);
}

TEST_F(Blocks, RunInTheOrderOfTheMode) {
  const auto last_of = [](const NamedOrder& order) {
    use(order);
    const DeviceArray<unsigned> last(1);
    check(launch(last_block, {100, 32}, last.data()));
    return last.values()[0];
  };
  EXPECT_EQ(last_of(kForward), 99u);
  EXPECT_EQ(last_of(kReverse), 0u);
  EXPECT_NE(last_of(kOrders[2]), last_of(kOrders[3]));
}

using BlocksDeathTest = Blocks;

TEST_F(BlocksDeathTest, TheModesAreReadFromTheEnvironment) {
  EXPECT_EQ(parse_schedule("", "").order, Order::forward);
  EXPECT_EQ(parse_schedule("", "").streams, Streams::lazy);
  EXPECT_EQ(parse_schedule("reverse", "eager").order, Order::reverse);
  EXPECT_EQ(parse_schedule("reverse", "eager").streams, Streams::eager);
  Schedule seeded = parse_schedule("shuffled:17", "random:18");
  EXPECT_EQ(seeded.order, Order::shuffled);
  EXPECT_EQ(seeded.streams, Streams::random);
  EXPECT_EQ(seeded.order_random.next(), Random(17).next());
  EXPECT_EQ(seeded.streams_random.next(), Random(18).next());
  EXPECT_DEATH(parse_schedule("shuffled", ""),
               "ORDER = shuffled is not forward, reverse");
  EXPECT_DEATH(parse_schedule("", "random:x"), "STREAMS = random:x is not eager, lazy");
}

// --- atomics ---

template <class T>
__global__ void add_ones(T* sum) {
  atomicAdd(sum, 1);
}
template <class T>
double sum_of_ones() {
  const DeviceArray<T> sum(std::vector<T>{T(0)});
  check(launch(add_ones<T>, {kBlocks, kThreads}, sum.data()));
  return static_cast<double>(sum.values()[0]);
}

TEST_F(Blocks, AtomicAddOfEveryType) {
  EXPECT_EQ(sum_of_ones<int>(), kBlocks * kThreads);
  EXPECT_EQ(sum_of_ones<unsigned>(), kBlocks * kThreads);
  EXPECT_EQ(sum_of_ones<unsigned long long>(), kBlocks * kThreads);
  EXPECT_EQ(sum_of_ones<float>(), kBlocks * kThreads);
  EXPECT_EQ(sum_of_ones<double>(), kBlocks * kThreads);
  EXPECT_EQ(sum_of_ones<__half>(), kBlocks * kThreads);
  EXPECT_EQ(sum_of_ones<__nv_bfloat16>(), 256);  // + 1 is rounded away from there
}

__global__ void every_atomic(int* values) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  atomicMax(&values[0], i);
  atomicMin(&values[1], -i);
  atomicOr(&values[2], 1 << i % 8);
  atomicAnd(&values[3], ~(1 << i % 4));
  atomicXor(&values[4], i);
  atomicSub(&values[5], 2);
  int seen = 0;
  while (true) {
    const int before = atomicCAS(&values[6], seen, seen + 3);
    if (before == seen) break;
    seen = before;
  }
  atomicInc(reinterpret_cast<unsigned*>(&values[7]), 9);
}

TEST_F(Blocks, AtomicsOfIntegers) {
  const DeviceArray<int> values(std::vector<int>{0, 0, 0, 255, 0, 0, 0, 0});
  check(launch(every_atomic, {1, kThreads}, values.data()));
  EXPECT_EQ(values.values(), (std::vector<int>{63, -63, 255, 240, 0, -128, 192, 4}));
}

// --- blocks that work together ---

// The last block to finish adds up what all have written.
template <bool kFence>
__global__ void sum_of_blocks(float* partials, unsigned* finished, float* sum) {
  GPU_SHARED(bool, is_last, [1]);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = static_cast<float>(blockIdx.x + 1);
    if constexpr (kFence) __threadfence();
    is_last[0] = atomicAdd(finished, 1u) + 1 == gridDim.x;
  }
  __syncthreads();
  if (!is_last[0] || threadIdx.x != 0) return;
  float total = 0.0f;
  for (unsigned i = 0; i < gridDim.x; ++i) total += partials[i];
  *sum = total;
}

template <bool kFence>
float run_sum_of_blocks(const NamedOrder& order) {
  set_order(order.order, order.seed);
  const DeviceArray<float> partials(kBlocks), sum(1);
  const DeviceArray<unsigned> finished(std::vector<unsigned>{0});
  check(launch(sum_of_blocks<kFence>, {kBlocks, kThreads}, partials.data(),
               finished.data(), sum.data()));
  return sum.values()[0];
}

TEST_F(Blocks, TheLastBlockMayAddUpWhatTheOthersWrote) {
  for (const NamedOrder& order : kOrders)
    EXPECT_EQ(run_sum_of_blocks<true>(order), kBlocks * (kBlocks + 1) / 2);
}

#ifdef __SANITIZE_THREAD__
__global__ void count_blocks(float* count) {
  if (threadIdx.x == 0) count[0] += 1.0f;
}
__global__ void read_left_block(float* values) {
  values[blockIdx.x] = blockIdx.x == 0 ? 1.0f : values[blockIdx.x - 1] + 1.0f;
}

TEST_F(Blocks, RacesBetweenThemAreReported) {
  use(kForward);
  const auto run = [](void (*kernel)(float*)) {
    const DeviceArray<float> values(std::vector<float>(kBlocks, 0.0f));
    check(launch(kernel, {kBlocks, 1}, values.data()));
    values.values();
  };
  EXPECT_RACE(run(count_blocks));
  EXPECT_RACE(run(read_left_block));
}

TEST_F(Blocks, MissingThreadfenceIsReported) {
  EXPECT_RACE(run_sum_of_blocks<false>(kForward));
}
#endif

}  // namespace
}  // namespace emulation
