// Memory of the device and of blocks: fresh contents, overruns, addresses of the wrong
// side, and what cudaMalloc and its kin refuse.
#include "selftest.hpp"

namespace emulation {
namespace {

constexpr unsigned kThreads = 64;

class DeviceMemory : public EmulationTest {};
using DeviceMemoryDeathTest = DeviceMemory;

// --- what nobody has written ---

__global__ void copy_static(float* out) {
  GPU_SHARED(float, values, [kThreads]);
  out[threadIdx.x] = values[threadIdx.x];
}
template <class T>
__global__ void copy_dynamic(float* out) {
  GPU_DYNAMIC_SHARED(T, values);
  out[threadIdx.x] = static_cast<float>(values[threadIdx.x]);
}
__global__ void copy_global(float* out, const float* in) {
  out[threadIdx.x] = in[threadIdx.x];
}

void expect_all_nan(const DeviceArray<float>& out) {
  for (const float value : out.values()) EXPECT_TRUE(std::isnan(value)) << value;
}

TEST_F(DeviceMemory, FreshMemoryIsNan) {
  for (int again = 0; again < 2; ++again) {  // also where another kernel has written
    const DeviceArray<float> a(kThreads), b(kThreads), c(kThreads), d(kThreads),
        in(kThreads);
    check(launch(copy_static, {1, kThreads}, a.data()));
    check(launch(copy_dynamic<float>, {1, kThreads, kThreads * 4}, b.data()));
    check(launch(copy_dynamic<__half>, {1, kThreads, kThreads * 2}, c.data()));
    check(launch(copy_global, {1, kThreads}, d.data(), in.data()));
    for (const auto* out : {&a, &b, &c, &d}) expect_all_nan(*out);
  }
}

// --- overruns ---

__global__ void write_dynamic(float* out, unsigned shift) {
  GPU_DYNAMIC_SHARED(float, values);
  values[threadIdx.x + shift] = 1.0f;
  out[threadIdx.x] = 0.0f;
}
__global__ void write_static(float* out, unsigned shift) {
  GPU_SHARED(float, values, [kThreads]);
  float* const hidden = values;  // UndefinedBehaviorSanitizer knows the array's bounds
  hidden[threadIdx.x + shift] = 1.0f;
  out[threadIdx.x] = 0.0f;
}
__global__ void write_global(float* out, unsigned shift) {
  out[threadIdx.x + shift] = 1.0f;
}

void run_overrun(void (*kernel)(float*, unsigned), unsigned shift) {
  const DeviceArray<float> out(kThreads);
  check(launch(kernel, {1, kThreads, kThreads * sizeof(float)}, out.data(), shift));
  out.values();
}

TEST_F(DeviceMemory, WritesInsideAreNotReported) {
  run_overrun(write_dynamic, 0);
  run_overrun(write_static, 0);
  run_overrun(write_global, 0);
}

#ifdef __SANITIZE_ADDRESS__
__global__ void read_global(float* out, unsigned shift) {
  __stcs(out, __ldg(out + threadIdx.x + shift));
}
__global__ void read_static(float* out, unsigned shift) {
  GPU_SHARED(float, values, [kThreads]);
  const float* const hidden = values;
  *out = hidden[threadIdx.x + shift];
}
__global__ void local_array(float* out, unsigned shift) {
  float values[kThreads] = {};
  float* const hidden = values;
  hidden[threadIdx.x + shift] = 1.0f;
  out[threadIdx.x] = hidden[shift];
}
__global__ void misaligned(float* out, unsigned shift) {
  const auto wide = *reinterpret_cast<const float4*>(out + shift);
  out[threadIdx.x] = wide.x;
}

TEST_F(DeviceMemoryDeathTest, OverrunsByOneAreReportedWithTheKernelsLine) {
  const char* const kPast = "heap-buffer-overflow.*memory_test.cpp";
  EXPECT_DEATH(run_overrun(write_dynamic, 1), kPast);
  EXPECT_DEATH(run_overrun(write_static, 1), kPast);
  EXPECT_DEATH(run_overrun(write_global, 1), kPast);
  EXPECT_DEATH(run_overrun(read_global, 1), kPast);
  EXPECT_DEATH(run_overrun(read_static, 1), kPast);
  EXPECT_DEATH(
      run_overrun(local_array, 1),
      "memory_test.cpp.*insufficient space|stack-buffer-overflow.*memory_test.cpp");
}

TEST_F(DeviceMemoryDeathTest, MisalignedVectorsAreReported) {
  EXPECT_DEATH(run_overrun(misaligned, 1), "memory_test.cpp.*misaligned address");
}

TEST_F(DeviceMemoryDeathTest, TheHostCannotTouchIt) {
  const DeviceArray<float> array(counting(kThreads));
  volatile float* const data = array.data();
  EXPECT_DEATH(data[3] = 1.0f, "use-after-poison.*memory_test.cpp");
}

TEST_F(DeviceMemoryDeathTest, AHostBufferMustLiveUntilTheCopyHasRun) {
  const auto run = [] {
    const DeviceArray<float> array(kThreads);
    const Stream stream;
    {
      const std::vector<float> values = counting(kThreads);
      check(cudaMemcpyAsync(array.data(), values.data(), kThreads * sizeof(float),
                            cudaMemcpyHostToDevice, stream));
    }
    check(cudaStreamSynchronize(stream));
  };
  set_streams(Streams::lazy);
  EXPECT_DEATH(run(), "heap-use-after-free");
}
#else
TEST_F(DeviceMemoryDeathTest, WritesNearbyAreReportedAfterTheKernel) {
  EXPECT_DEATH(run_overrun(write_dynamic, 1), "outside its dynamic shared memory of 256");
  EXPECT_DEATH(run_overrun(write_static, 1), "outside its static shared memory of 256");
  EXPECT_DEATH(run_overrun(write_global, 1), "outside an allocation of 256 bytes.* 256");
}
#endif

// --- addresses of the wrong side ---

struct Rows {
  const float* in;
  int count;
};
__global__ void copy_rows(float* out, Rows rows) {
  if (threadIdx.x < static_cast<unsigned>(rows.count))
    out[threadIdx.x] = rows.in[threadIdx.x];
}

TEST_F(DeviceMemoryDeathTest, HostAddressesDoNotReachAKernel) {
  const DeviceArray<float> out(kThreads), in(counting(kThreads));
  std::vector<float> host(kThreads);
  float on_stack[kThreads] = {};
  EXPECT_DEATH(launch(copy_global, {1, kThreads}, out.data(), host.data()),
               "argument 2 of a kernel");
  EXPECT_DEATH(launch(copy_global, {1, kThreads}, &on_stack[0], in.data()),
               "argument 1 of a kernel");
  if (!has_tsan()) {
    EXPECT_DEATH(launch(copy_rows, {1, kThreads}, out.data(), Rows{host.data(), 3}),
                 "argument 2 of a kernel");
  }
  check(launch(copy_rows, {1, kThreads}, out.data(), Rows{in.data(), 3}));
  EXPECT_EQ(out.values()[2], 2.0f);
}

TEST_F(DeviceMemory, CopiesCheckTheirSides) {
  const DeviceArray<float> device(4);
  float host[8] = {};
  EXPECT_EQ(cudaMemcpy(device.data(), host, 16, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device.data(), host, 20, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data(), host, 16, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, device.data(), 16, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemset(host, 0, 16), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(DeviceMemory, CopiesRowsWithPitches) {
  const DeviceArray<float> device(counting(12));
  std::vector<float> host(8, -1.0f);
  check(cudaMemcpy2DAsync(host.data(), 16, device.data() + 1, 24, 8, 2,
                          cudaMemcpyDeviceToHost, nullptr));
  EXPECT_EQ(host, (std::vector<float>{1, 2, -1, -1, 7, 8, -1, -1}));
}

// --- what is refused ---

TEST_F(DeviceMemory, IsFinite) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  float* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, free + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(data, nullptr);
  EXPECT_STREQ(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
  {
    const DeviceArray<float> array(1000);
    std::size_t less = 0;
    check(cudaMemGetInfo(&less, &total));
    EXPECT_EQ(less + 4000, free);
  }
  EXPECT_EQ(cudaFree(&free), cudaErrorInvalidValue);
}

TEST_F(DeviceMemory, LaunchesThatAGpuRefusesAreRefused) {
  const DeviceArray<float> out(kThreads);
  const auto result = [&](llmtrain::cuda::LaunchConfig config) {
    const cudaError_t error = launch(copy_dynamic<float>, config, out.data());
    cudaDeviceSynchronize();
    return error;
  };
  EXPECT_EQ(result({0, 32, 4096}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(result({1, 1056, 8192}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(result({{1, 65536}, 32, 4096}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(result({1, 32, 200 * 1024}), cudaSuccess);
  EXPECT_EQ(result({1, 32, 228 * 1024}), cudaErrorInvalidValue);
  // Without the attribute that launch() sets.
  EXPECT_EQ(
      emulation::launch(copy_dynamic<double>, 1, 32, 49 * 1024, nullptr, out.data()),
      cudaErrorInvalidValue);
}

}  // namespace
}  // namespace emulation
