// The functions of the CUDA runtime that the program calls, with their real prototypes:
// errors, the device, streams, events, kernels.
#include "runtime.hpp"

#include <cstring>
#include <map>
#include <utility>

#include "device_memory.hpp"
#include "grid.hpp"
#include "last_error.hpp"
#include "streams.hpp"
#include "thread.hpp"

namespace {

using namespace emulation;

cudaError_t last_error = cudaSuccess;

// An H100 in what kernels and plans ask for.
constexpr std::size_t kMostSharedBytes = 227 * 1024, kPlainSharedBytes = 48 * 1024;
constexpr int kProcessors = 132;
constexpr unsigned kMostBlocksY = 65535;

std::map<const void*, std::size_t>& allowed_shared_bytes() {
  static std::map<const void*, std::size_t> bytes;
  return bytes;
}

bool is_launchable(const Kernel& kernel) {
  const dim3 &grid = kernel.grid, &block = kernel.block;
  const auto nonzero = [](const dim3& d) { return d.x > 0 && d.y > 0 && d.z > 0; };
  return nonzero(grid) && nonzero(block) && grid.x <= 0x7fffffffu &&
         grid.y <= kMostBlocksY && grid.z <= kMostBlocksY && block.z <= 64 &&
         static_cast<std::size_t>(block.x) * block.y * block.z <= kMostThreads;
}

}  // namespace

namespace emulation {

cudaError_t done(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t enqueue(Kernel kernel, cudaStream_t stream) {
  if (!is_launchable(kernel)) return done(cudaErrorInvalidConfiguration);
  const auto allowed = allowed_shared_bytes().find(kernel.address);
  if (kernel.dynamic_shared_bytes >
      (allowed == allowed_shared_bytes().end() ? kPlainSharedBytes : allowed->second))
    return done(cudaErrorInvalidValue);
  return done(enqueue(stream, [kernel = std::move(kernel)] {
    run_grid(kernel);
    return true;
  }));
}

}  // namespace emulation

// --- errors ---
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    default:
      return "an error that the emulated device does not raise";
  }
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

// --- devices: one ---
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return done(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return done(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kProcessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = kMostThreads;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2 * kMostThreads;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kMostSharedBytes;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = kWarp;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      return cudaSuccess;
    default:
      return done(cudaErrorInvalidValue);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return done(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated device");
  properties->totalGlobalMem = device_bytes();
  properties->major = 9;
  properties->multiProcessorCount = kProcessors;
  properties->warpSize = kWarp;
  properties->maxThreadsPerBlock = kMostThreads;
  properties->sharedMemPerBlock = kPlainSharedBytes;
  properties->sharedMemPerBlockOptin = kMostSharedBytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  synchronize_all();
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute,
                                 int value) {
  const auto bytes = static_cast<std::size_t>(value);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      bytes > kMostSharedBytes)
    return done(cudaErrorInvalidValue);
  allowed_shared_bytes()[kernel] = bytes;
  return cudaSuccess;
}

// --- streams ---
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = new_stream((flags & cudaStreamNonBlocking) == 0);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr || find(stream) == nullptr)
    return done(cudaErrorInvalidResourceHandle);
  delete_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const auto stream = find(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  synchronize(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const auto stream = find(handle);
  if (stream == nullptr) return done(cudaErrorInvalidResourceHandle);
  return poll(*stream) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const auto stream = find(handle);
  const Event* const found = find(event);
  if (stream == nullptr || found == nullptr) return done(cudaErrorInvalidResourceHandle);
  wait_for(*stream, *found);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return done(enqueue(stream, [=] {
    function(data);
    return true;
  }));
}

// --- events ---
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new_event();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (find(event) == nullptr) return done(cudaErrorInvalidResourceHandle);
  delete_event(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const auto stream = find(handle);
  Event* const found = find(event);
  if (stream == nullptr || found == nullptr) return done(cudaErrorInvalidResourceHandle);
  record(*found, stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Event* const found = find(event);
  if (found == nullptr) return done(cudaErrorInvalidResourceHandle);
  synchronize(*found);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Event* const found = find(event);
  if (found == nullptr) return done(cudaErrorInvalidResourceHandle);
  return poll(*found) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const Event *const first = find(start), *const second = find(end);
  if (first == nullptr || second == nullptr || first->work == nullptr ||
      second->work == nullptr)
    return done(cudaErrorInvalidResourceHandle);
  if (!first->work->finished || !second->work->finished) return cudaErrorNotReady;
  *ms = static_cast<float>(second->work->finished_ms - first->work->finished_ms);
  return cudaSuccess;
}
