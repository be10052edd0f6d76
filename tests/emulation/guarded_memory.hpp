// An allocation filled with 0xff whose surroundings are watched: by AddressSanitizer where
// it is on, else by zones of a known pattern on both sides.
#pragma once

#include <cstddef>

namespace emulation {

class GuardedMemory {
 public:
  // Aligned to 256 bytes. Ends the process where there is no memory.
  explicit GuardedMemory(std::size_t bytes);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  // Offset from data() of a byte outside that was written; 0 when there is none.
  std::ptrdiff_t damage() const;

 private:
  void* base_;
  void* data_;
  std::size_t bytes_;
};

}  // namespace emulation
