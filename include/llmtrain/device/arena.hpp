// A stack of tensors in one buffer: activations of a micro-batch, or scratch within an
// op.
#pragma once

#include <algorithm>

#include "llmtrain/device/device.hpp"

namespace llmtrain {

// Hands out memory by bumping an offset. On the meta device, or while `measuring`,
// capacity is unlimited and only the high-water mark is kept, which is how a real arena
// gets its size.
class Arena {
 public:
  // An arena that measures: every tensor is null, high_water() says what would be needed.
  Arena() = default;
  // An arena of `capacity` bytes on `device`.
  Arena(Device& device, index_t capacity, MemoryUse use)
      : buffer_(device.allocate(capacity, use)), measuring_(device.is_meta()) {}

  // Uninitialised elements, aligned to 64 bytes; valid until release() goes below them.
  // Throws Error(internal) when the capacity is exceeded.
  TensorView allocate(Shape shape, Dtype dtype = Dtype::f32) {
    const index_t bytes = round_up(shape.count() * size_bytes(dtype), kAlignment);
    require(measuring_ || used_ + bytes <= buffer_.bytes(), "arena of ", buffer_.bytes(),
            " bytes cannot hold ", bytes, " more than ", used_);
    std::byte* const data = measuring_ ? nullptr : buffer_.data() + used_;
    used_ += bytes;
    high_water_ = std::max(high_water_, used_);
    return {data, dtype, shape};
  }

  index_t used() const { return used_; }
  index_t high_water() const { return high_water_; }
  // Frees everything allocated since used() was `mark`.
  void release(index_t mark) { used_ = mark; }

 private:
  static constexpr index_t kAlignment = 64;
  Buffer buffer_;
  bool measuring_ = true;
  index_t used_ = 0, high_water_ = 0;
};

// Releases what was allocated during its life.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  index_t mark_;
};

}  // namespace llmtrain
