#include "llmtrain/device/device.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "llmtrain/device/shared_memory.hpp"

namespace llmtrain {

namespace {

// mmap: page-aligned, zeroed by the kernel, and returned to it at once when freed. Null
// with errno set.
std::byte* map_private(index_t bytes) {
  void* const data = mmap(nullptr, static_cast<std::size_t>(bytes),
                          PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

}  // namespace

const char* name(MemoryUse use) {
  switch (use) {
    case MemoryUse::weights:
      return "weights";
    case MemoryUse::gradients:
      return "gradients";
    case MemoryUse::masters:
      return "masters";
    case MemoryUse::moments:
      return "moments";
    case MemoryUse::activations:
      return "activations";
    case MemoryUse::workspace:
      return "workspace";
  }
  return "?";
}

index_t Device::used_bytes() const {
  return std::accumulate(used_.begin(), used_.end(), index_t{0});
}

void Device::count(index_t bytes, MemoryUse use) {
  used_[static_cast<int>(use)] += bytes;
  const index_t total = used_bytes();
  if (total > peak_) {
    peak_ = total;
    at_peak_ = used_;
  }
}

bool Device::shares(MemoryUse use) const {
  return sharing_ == Sharing::node &&
         (use == MemoryUse::weights || use == MemoryUse::gradients);
}

Buffer Device::allocate(index_t bytes, MemoryUse use) {
  require(bytes >= 0, "negative allocation ", bytes);
  Buffer buffer;
  buffer.device_ = this;
  buffer.bytes_ = bytes;
  buffer.use_ = use;
  if (!is_meta() && bytes > 0) {
    bool is_short = false;
    if (shares(use)) {
      buffer.data_ = SharedMemory::allocate(bytes);
      buffer.shared_ = buffer.data_ != nullptr;
      is_short = !buffer.shared_ && (errno == ENOSPC || errno == ENOMEM);
    }
    // Where nothing can be shared, private memory does: others reach it in other ways.
    if (!buffer.shared_ && !is_short) buffer.data_ = map_private(bytes);
    if (buffer.data_ == nullptr) {
      buffer.device_ = nullptr;
      fail(Status::resources, "cannot allocate ", bytes >> 20, " MiB for ", name(use),
           ": ", std::strerror(errno), " (", used_bytes() >> 20,
           " MiB are in use; reduce batch.micro, or shard with parallel.zero)");
    }
  }
  count(bytes, use);
  return buffer;
}

Buffer::~Buffer() {
  if (device_ == nullptr) return;
  device_->count(-bytes_, use_);
  if (data_ == nullptr) return;
  if (shared_) {
    SharedMemory::free(data_);
  } else {
    munmap(data_, static_cast<std::size_t>(bytes_));
  }
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(use_, other.use_);
  std::swap(shared_, other.shared_);
}

}  // namespace llmtrain
