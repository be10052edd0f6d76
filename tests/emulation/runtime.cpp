// The functions of the CUDA runtime that the program calls, with their real prototypes:
// checks of what a caller can get wrong, then memory and streams.
#include "runtime.hpp"

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "device_memory.hpp"
#include "grid.hpp"
#include "streams.hpp"
#include "thread.hpp"

namespace {

using namespace emulation;

cudaError_t last_error = cudaSuccess;

cudaError_t done(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

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

enum class Side { host, device, either };
struct Direction {
  Side to, from;
};
Direction direction_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return {Side::host, Side::host};
    case cudaMemcpyHostToDevice:
      return {Side::device, Side::host};
    case cudaMemcpyDeviceToHost:
      return {Side::host, Side::device};
    case cudaMemcpyDeviceToDevice:
      return {Side::device, Side::device};
    case cudaMemcpyDefault:
      break;
  }
  return {Side::either, Side::either};
}

// Whether the bytes are on that side, and all in one allocation if they are in ours.
bool is_valid(const void* address, std::size_t bytes, Side side) {
  const Memory memory = memory_of(address);
  if (address == nullptr) return false;
  if (side == Side::device && memory != Memory::device) return false;
  if (side == Side::host && memory == Memory::device) return false;
  return memory == Memory::pageable || lies_in(memory, address, bytes);
}

struct Copy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  std::size_t width, height;
  Direction direction;

  bool is_valid() const {
    return to_pitch >= width && from_pitch >= width &&
           ::is_valid(to, (height - 1) * to_pitch + width, direction.to) &&
           ::is_valid(from, (height - 1) * from_pitch + width, direction.from);
  }
  void run() const {
    if (!is_valid()) report("a copy runs after its memory has been freed");
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
  }
};

cudaError_t enqueue_copy(const Copy& copy, cudaStream_t stream) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (!copy.is_valid()) return cudaErrorInvalidValue;
  return enqueue(stream, [copy] {
    copy.run();
    return true;
  });
}

cudaError_t enqueue_fill(void* address, int value, std::size_t bytes,
                         cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_valid(address, bytes, Side::device)) return cudaErrorInvalidValue;
  return enqueue(stream, [=] {
    if (!is_valid(address, bytes, Side::device))
      report("a fill runs after its memory has been freed");
    std::memset(address, value, bytes);
    return true;
  });
}

cudaError_t allocate_for(void** address, std::size_t bytes, Memory memory) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = allocate(memory, bytes);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t free_after_all(void* address, Memory memory) {
  if (address == nullptr) return cudaSuccess;
  synchronize_all();
  return deallocate(memory, address) ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

namespace emulation {

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

// --- memory ---
cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return done(allocate_for(address, bytes, Memory::device));
}
cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
  if (find(stream) == nullptr) return done(cudaErrorInvalidResourceHandle);
  return done(allocate_for(address, bytes, Memory::device));
}
cudaError_t cudaFree(void* address) {
  return done(free_after_all(address, Memory::device));
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  if (address == nullptr) return cudaSuccess;
  if (memory_of(address) != Memory::device) return done(cudaErrorInvalidValue);
  return done(enqueue(stream, [address] {
    if (!deallocate(Memory::device, address))
      report("device memory is freed twice, or not at its beginning");
    return true;
  }));
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return done(allocate_for(address, bytes, Memory::pinned));
}
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return done(allocate_for(address, bytes, Memory::pinned));
}
cudaError_t cudaFreeHost(void* address) {
  return done(free_after_all(address, Memory::pinned));
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = device_bytes();
  *free = device_bytes() - used_device_bytes();
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* address) {
  *attributes = {};
  auto* const plain = const_cast<void*>(address);
  switch (memory_of(address)) {
    case Memory::device:
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = plain;
      break;
    case Memory::pinned:
      attributes->type = cudaMemoryTypeHost;
      attributes->devicePointer = attributes->hostPointer = plain;
      break;
    case Memory::pageable:
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->hostPointer = plain;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return done(
      enqueue_copy({to, bytes, from, bytes, bytes, 1, direction_of(kind)}, stream));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                       cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return done(enqueue_copy(
      {to, to_pitch, from, from_pitch, width, height, direction_of(kind)}, stream));
}
cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes,
                            cudaStream_t stream) {
  return done(enqueue_fill(address, value, bytes, stream));
}
cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  return cudaMemsetAsync(address, value, bytes, nullptr);
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
