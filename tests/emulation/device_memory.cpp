#include "device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "guarded_memory.hpp"
#include "runtime.hpp"
#include "sanitizers.hpp"
#include "thread.hpp"

namespace emulation {
namespace {

struct Allocation {
  Memory memory;
  GuardedMemory guarded;
};

std::map<std::uintptr_t, Allocation>& allocations() {
  static std::map<std::uintptr_t, Allocation> all;
  return all;
}

std::size_t capacity = std::size_t{1} << 30, used = 0;
int accesses = 0;

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// The allocation that holds the byte at `address`, or null.
const Allocation* find(const void* address) {
  auto after = allocations().upper_bound(number(address));
  if (after == allocations().begin()) return nullptr;
  const auto& [begin, allocation] = *--after;
  return number(address) - begin < allocation.guarded.bytes() ? &allocation : nullptr;
}

void check_guards(const Allocation& allocation) {
  const std::ptrdiff_t offset = allocation.guarded.damage();
  if (offset == 0) return;
  report("somebody wrote outside an allocation of " +
         std::to_string(allocation.guarded.bytes()) + " bytes, at byte " +
         std::to_string(offset));
}

// Whether a word is the address of memory of the host. Two integers side by side make small
// addresses; the heap, the stack and mappings lie high.
bool is_host_memory(std::uintptr_t word) {
  constexpr std::uintptr_t kLowest = 0x550000000000, kEnd = 0x800000000000;
  if (word < kLowest || word >= kEnd) return false;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(word / page * page), page, &resident) == 0 &&
         memory_of(reinterpret_cast<void*>(word)) == Memory::pageable;
}

}  // namespace

Memory memory_of(const void* address) {
  const Allocation* const allocation = find(address);
  return allocation == nullptr ? Memory::pageable : allocation->memory;
}

bool lies_in(Memory memory, const void* address, std::size_t bytes) {
  const Allocation* const allocation = find(address);
  return allocation != nullptr && allocation->memory == memory &&
         number(address) - number(allocation->guarded.data()) + bytes <=
             allocation->guarded.bytes();
}

bool is_device_memory(const void* address, std::size_t bytes) {
  return lies_in(Memory::device, address, bytes);
}

void* allocate(Memory memory, std::size_t bytes) {
  if (memory == Memory::device) {
    if (bytes > capacity - used) return nullptr;
    used += bytes;
  }
  GuardedMemory guarded(bytes);
  void* const data = guarded.data();
  if (memory == Memory::device && accesses == 0) forbid(data, bytes);
  allocations().emplace(number(data), Allocation{memory, std::move(guarded)});
  return data;
}

bool deallocate(Memory memory, void* address) {
  const auto found = allocations().find(number(address));
  if (found == allocations().end() || found->second.memory != memory) return false;
  check_guards(found->second);
  if (memory == Memory::device) used -= found->second.guarded.bytes();
  allocations().erase(found);
  return true;
}

std::size_t device_bytes() { return capacity; }
std::size_t used_device_bytes() { return used; }
void set_device_bytes(std::size_t bytes) { capacity = bytes; }

DeviceAccess::DeviceAccess() {
  if (accesses++ > 0) return;
  for (const auto& [address, allocation] : allocations())
    allow(allocation.guarded.data(), allocation.guarded.bytes());
}

DeviceAccess::~DeviceAccess() {
  if (--accesses > 0) return;
  for (const auto& [address, allocation] : allocations()) {
    check_guards(allocation);
    if (allocation.memory == Memory::device)
      forbid(allocation.guarded.data(), allocation.guarded.bytes());
  }
}

void check_argument(int position, Argument kind, const void* value, std::size_t bytes) {
  // ThreadSanitizer maps so much that the padding of a structure would hit it.
  if (has_tsan() && kind == Argument::value) return;
  const auto* const words = static_cast<const unsigned char*>(value);
  for (std::size_t offset = 0; offset + sizeof(void*) <= bytes; offset += sizeof(void*)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, words + offset, sizeof word);
    if (word == 0) continue;
    const bool wrong = kind == Argument::pointer
                           ? memory_of(reinterpret_cast<void*>(word)) == Memory::pageable
                           : is_host_memory(word);
    if (wrong) {
      report("argument " + std::to_string(position) +
             " of a kernel is or holds an address that is not of device memory (byte " +
             std::to_string(offset) + ")");
    }
  }
}

}  // namespace emulation
