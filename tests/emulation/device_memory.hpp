// Device and pinned host memory. The host cannot touch device memory (under
// AddressSanitizer); kernels and copies can, while a DeviceAccess lives.
#pragma once

#include <cstddef>

namespace emulation {

enum class Memory { device, pinned, pageable };

// What holds `address`; pageable when it is none of ours.
Memory memory_of(const void* address);

// Whether [address, address + bytes) lies in one live allocation of that kind.
bool lies_in(Memory memory, const void* address, std::size_t bytes);

// Returns null where the device has no room.
void* allocate(Memory memory, std::size_t bytes);
// False when `address` is not the beginning of a live allocation of that kind.
bool deallocate(Memory memory, void* address);

std::size_t device_bytes();
std::size_t used_device_bytes();

class DeviceAccess {
 public:
  DeviceAccess();
  // Also reports writes outside of every allocation.
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace emulation
