#include "guarded_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "sanitizers.hpp"
#include "thread.hpp"

namespace emulation {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr unsigned char kPattern = 0xa5, kFresh = 0xff;

// AddressSanitizer watches the surroundings of every allocation by itself.
std::size_t zone() { return has_asan() ? 0 : 256; }

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) : bytes_(bytes) {
  // Kernels' threads allocate shared memory for each other: nobody's access.
  const Unobserved scope;
  if (posix_memalign(&base_, kAlignment, bytes + 2 * zone()) != 0) {
    report("the host has no memory for " + std::to_string(bytes) + " bytes");
  }
  data_ = static_cast<char*>(base_) + zone();
  std::memset(base_, kPattern, zone());
  std::memset(data_, kFresh, bytes);
  std::memset(static_cast<char*>(data_) + bytes, kPattern, zone());
}

GuardedMemory::~GuardedMemory() {
  if (base_ == nullptr) return;
  const Unobserved scope;
  allow(data_, bytes_);
  std::free(base_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      data_(other.data_),
      bytes_(other.bytes_) {}

std::ptrdiff_t GuardedMemory::damage() const {
  const auto* const bytes = static_cast<const unsigned char*>(data_);
  const auto width = static_cast<std::ptrdiff_t>(zone());
  const auto end = static_cast<std::ptrdiff_t>(bytes_);
  for (std::ptrdiff_t i = 0; i < width; ++i) {
    if (bytes[end + i] != kPattern) return end + i;
    if (bytes[-1 - i] != kPattern) return -1 - i;
  }
  return 0;
}

}  // namespace emulation
