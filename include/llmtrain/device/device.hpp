// Where memory lives and who counts it. Weights, gradients, masters (the f32 weights that a
// 16-bit run updates), moments, activations and scratch come from a Device under a category,
// so that `--check` can run the real code on the meta device and print what a run will
// allocate. (Batches in host memory and the fixed buffers of communicators are not counted.)
#pragma once

#include <array>
#include <memory>

#include "llmtrain/core/types.hpp"
#include "llmtrain/tensor/tensor_view.hpp"

namespace llmtrain {

enum class DeviceKind { cpu, meta };

// Whether other ranks of the node can map what collectives move (weights and gradients).
// Such memory has small pages on most systems, so a rank alone does without.
enum class Sharing { none, node };

enum class MemoryUse { weights, gradients, masters, moments, activations, workspace };
constexpr int kMemoryUses = 6;
const char* name(MemoryUse use);

class Buffer;

// Counts what is allocated through it. One per rank; not thread-safe; must outlive its
// buffers.
class Device {
 public:
  explicit Device(DeviceKind kind, Sharing sharing = Sharing::none)
      : kind_(kind), sharing_(sharing) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  bool is_meta() const { return kind_ == DeviceKind::meta; }

  // Zeroed memory aligned to 64 bytes. Throws Error(resources) naming size and use.
  Buffer allocate(index_t bytes, MemoryUse use);

  index_t used_bytes(MemoryUse use) const { return used_[static_cast<int>(use)]; }
  index_t used_bytes() const;
  index_t peak_bytes() const { return peak_; }
  // The use of each category at the moment of the peak.
  index_t peak_bytes(MemoryUse use) const { return at_peak_[static_cast<int>(use)]; }

 private:
  friend class Buffer;
  void count(index_t bytes, MemoryUse use);
  bool shares(MemoryUse use) const;

  DeviceKind kind_;
  Sharing sharing_;
  std::array<index_t, kMemoryUses> used_{}, at_peak_{};
  index_t peak_ = 0;
};

// Owns one allocation; move-only. Empty when default-constructed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  index_t bytes() const { return bytes_; }
  explicit operator bool() const { return device_ != nullptr; }
  // All of it as elements in one dimension.
  TensorView view(Dtype dtype) const {
    return {data_, dtype, Shape{bytes_ / size_bytes(dtype)}};
  }
  TensorView floats() const { return view(Dtype::f32); }
  std::byte* data() const { return data_; }

 private:
  friend class Device;
  void swap(Buffer& other) noexcept;

  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  index_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::workspace;
  bool shared_ = false;
};

}  // namespace llmtrain
