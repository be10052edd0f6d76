// The functions of the CUDA runtime that concern memory, with their real prototypes.
#include <cstring>

#include "device_memory.hpp"
#include "last_error.hpp"
#include "runtime.hpp"
#include "streams.hpp"
#include "thread.hpp"

namespace {

using namespace emulation;

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
