// Streams and events: work is done late, in the order that CUDA promises and in no other.
#include <atomic>

#include "selftest.hpp"

namespace emulation {
namespace {

constexpr unsigned kThreads = 64;

__global__ void add(float* values, float what) { values[threadIdx.x] += what; }
__global__ void copy(float* out, const float* in) { out[threadIdx.x] = in[threadIdx.x]; }

class StreamsTest : public EmulationTest {
 protected:
  struct Mode {
    const char* name;
    Streams streams;
    std::uint64_t seed;
  };
  static constexpr Mode kModes[] = {{"eager", Streams::eager, 0},
                                    {"lazy", Streams::lazy, 0},
                                    {"random:1", Streams::random, 1},
                                    {"random:2", Streams::random, 2},
                                    {"random:3", Streams::random, 3}};
  static void use(const Mode& mode) { set_streams(mode.streams, mode.seed); }
};

// --- when work is done ---

// Looked at while the stream may write it, so that even looking is no race.
using Counter = std::atomic<int>;
void count(void* counter) { ++*static_cast<Counter*>(counter); }

TEST_F(StreamsTest, EagerWorkIsDoneAtOnce) {
  set_streams(Streams::eager);
  const Stream stream;
  Counter counter = 0;
  check(cudaLaunchHostFunc(stream, count, &counter));
  EXPECT_EQ(counter, 1);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST_F(StreamsTest, LazyWorkIsDoneWhenItsStreamIsAwaited) {
  set_streams(Streams::lazy);
  const Stream a, b;
  Counter first = 0, second = 0;
  check(cudaLaunchHostFunc(a, count, &first));
  check(cudaLaunchHostFunc(b, count, &second));
  EXPECT_EQ(first + second, 0);
  check(cudaStreamSynchronize(a));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  check(cudaDeviceSynchronize());
  EXPECT_EQ(second, 1);
}

TEST_F(StreamsTest, LazyWorkIsDoneAsFarAsTheEventAsks) {
  set_streams(Streams::lazy);
  const Stream stream;
  const Event event;
  Counter counter = 0;
  check(cudaLaunchHostFunc(stream, count, &counter));
  check(cudaEventRecord(event, stream));
  check(cudaLaunchHostFunc(stream, count, &counter));
  check(cudaEventSynchronize(event));
  EXPECT_EQ(counter, 1);
}

TEST_F(StreamsTest, AskingWhetherItIsDoneMakesProgress) {
  set_streams(Streams::lazy);
  const Stream stream;
  const Event event;
  Counter counter = 0;
  check(cudaLaunchHostFunc(stream, count, &counter));
  check(cudaEventRecord(event, stream));
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  EXPECT_EQ(counter, 1);
}

TEST_F(StreamsTest, ArgumentsAreThoseOfTheCall) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    use(mode);
    const Stream stream;
    const DeviceArray<float> values(std::vector<float>(kThreads, 0.0f));
    float what = 2.0f;
    check(launch(add, {1, kThreads, 0, stream}, values.data(), what));
    what = 100.0f;
    EXPECT_EQ(values.values(), std::vector<float>(kThreads, 2.0f));
  }
}

// --- order between streams ---

enum class Wait { no, yes };

// Two streams: one adds to zeros, the other copies the sums.
std::vector<float> add_then_copy(Wait wait) {
  const Stream adder, copier;
  const Event added;
  const DeviceArray<float> sums(std::vector<float>(kThreads, 0.0f)), out(kThreads);
  check(launch(add, {1, kThreads, 0, adder}, sums.data(), 6.0f));
  check(cudaEventRecord(added, adder));
  if (wait == Wait::yes) check(cudaStreamWaitEvent(copier, added));
  check(launch(copy, {1, kThreads, 0, copier}, out.data(), sums.data()));
  std::vector<float> result(kThreads);
  check(cudaMemcpyAsync(result.data(), out.data(), kThreads * sizeof(float),
                        cudaMemcpyDeviceToHost, copier));
  check(cudaStreamSynchronize(copier));
  return result;
}

const std::vector<float> kSums(kThreads, 6.0f);

TEST_F(StreamsTest, AnEventOrdersThemInEveryMode) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    use(mode);
    EXPECT_EQ(add_then_copy(Wait::yes), kSums);
  }
}

#ifdef __SANITIZE_THREAD__
TEST_F(StreamsTest, AMissingWaitIsARaceInEveryMode) {
  set_streams(Streams::eager);
  EXPECT_RACE(add_then_copy(Wait::no));
  set_streams(Streams::lazy);
  EXPECT_RACE(add_then_copy(Wait::no));
}

TEST_F(StreamsTest, AHostBufferWrittenBeforeTheCopyIsDoneIsARace) {
  set_streams(Streams::eager);
  const auto run = [] {
    const Stream stream;
    const DeviceArray<float> array(kThreads);
    std::vector<float> values = counting(kThreads);
    check(cudaMemcpyAsync(array.data(), values.data(), kThreads * sizeof(float),
                          cudaMemcpyHostToDevice, stream));
    values[3] = 0.0f;
    check(cudaStreamSynchronize(stream));
  };
  EXPECT_RACE(run());
}
#else
TEST_F(StreamsTest, AMissingWaitIsWrongInLazyMode) {
  set_streams(Streams::lazy);
  EXPECT_EQ(add_then_copy(Wait::no), std::vector<float>(kThreads, 0.0f));
}
TEST_F(StreamsTest, AMissingWaitIsHiddenInEagerMode) {
  set_streams(Streams::eager);
  EXPECT_EQ(add_then_copy(Wait::no), kSums);
}

// cudaMemcpy waits for the NULL stream and for what that waits for, which streams that
// are made non-blocking are not.
TEST_F(StreamsTest, TheNullStreamWaitsForBlockingStreamsOnly) {
  set_streams(Streams::lazy);
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, flags));
    const DeviceArray<float> values(std::vector<float>(kThreads, 0.0f));
    check(launch(add, {1, kThreads, 0, stream}, values.data(), 6.0f));
    float first = 0.0f;
    check(cudaMemcpy(&first, values.data(), sizeof first, cudaMemcpyDeviceToHost));
    EXPECT_EQ(first, flags == cudaStreamDefault ? 6.0f : 0.0f);
    check(cudaStreamDestroy(stream));
  }
}
#endif

TEST_F(StreamsTest, AWaitMeansTheEventAsItWasRecordedThen) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    use(mode);
    const Stream a, b;
    const Event event;
    Counter first = 0, second = 0, seen = 0;
    check(cudaStreamWaitEvent(b, event));  // not recorded: no wait
    check(cudaLaunchHostFunc(a, count, &first));
    check(cudaEventRecord(event, a));
    check(cudaStreamWaitEvent(b, event));
    check(cudaLaunchHostFunc(a, count, &second));
    check(cudaEventRecord(event, a));
    check(cudaLaunchHostFunc(b, count, &seen));
    check(cudaStreamSynchronize(b));
    EXPECT_EQ(first, 1);
    EXPECT_EQ(seen, 1);
    if (mode.streams == Streams::lazy) {
      EXPECT_EQ(second, 0);
    }
    check(cudaStreamSynchronize(a));
  }
}

TEST_F(StreamsTest, MemoryIsFreedAfterTheWorkBeforeIt) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    use(mode);
    const Stream stream;
    float* values = nullptr;
    std::vector<float> result(kThreads);
    check(cudaMallocAsync(&values, kThreads * sizeof(float), stream));
    check(cudaMemsetAsync(values, 0, kThreads * sizeof(float), stream));
    check(launch(add, {1, kThreads, 0, stream}, values, 6.0f));
    check(cudaMemcpyAsync(result.data(), values, kThreads * sizeof(float),
                          cudaMemcpyDeviceToHost, stream));
    check(cudaFreeAsync(values, stream));
    check(cudaStreamSynchronize(stream));
    EXPECT_EQ(result, kSums);
    EXPECT_FALSE(is_device_memory(values, 1));
  }
}

// --- work that waits for something outside ---

TEST_F(StreamsTest, ASynchronisationCallsTheHookWhileItWaits) {
  for (const Mode& mode : kModes) {
    SCOPED_TRACE(mode.name);
    use(mode);
    Counter calls = 0;
    set_progress_hook([&] { ++calls; });
    const Stream a, b;
    const Event arrived;
    Counter other = 0;
    check(enqueue(a, [&] { return calls >= 5; }));
    check(cudaEventRecord(arrived, a));
    check(cudaStreamWaitEvent(b, arrived));
    check(cudaLaunchHostFunc(b, count, &other));
    EXPECT_EQ(other, 0);
    check(cudaStreamSynchronize(b));
    EXPECT_EQ(calls, 5);
    EXPECT_EQ(other, 1);
    set_progress_hook(nullptr);
  }
}

// As two processes whose collectives on two streams start in different orders.
TEST_F(StreamsTest, OtherStreamsGoOnWhileOneWaits) {
  set_streams(Streams::lazy);
  const Stream a, b;
  std::atomic<bool> sent = false;
  check(enqueue(a, [&] { return sent.load(); }));
  check(enqueue(b, [&] { return sent = true; }));
  check(cudaStreamSynchronize(a));
  EXPECT_TRUE(sent);
}

TEST_F(StreamsTest, ProgressRunsWhatNobodyWaitsFor) {
  set_streams(Streams::lazy);
  const Stream stream;
  Counter counter = 0;
  check(cudaLaunchHostFunc(stream, count, &counter));
  progress();
  EXPECT_EQ(counter, 1);
}

// --- what is refused ---

TEST_F(StreamsTest, HandlesThatAreNoLongerAliveAreRefused) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaEventCreate(&event));
  check(cudaEventRecord(event, stream));
  float ms = 0.0f;
  if (cudaEventQuery(event) == cudaSuccess)
    check(cudaEventElapsedTime(&ms, event, event));
  check(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);  // outlives its stream
  check(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

}  // namespace
}  // namespace emulation
