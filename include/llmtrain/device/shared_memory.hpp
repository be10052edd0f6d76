// Memory that other processes of the node can map: each allocation is a file without a
// name (memfd), which ends with the last process that holds it, however that dies.
//
// Communicators are given addresses, not buffers, so the allocations are listed for the
// whole process. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "llmtrain/core/types.hpp"

namespace llmtrain {

// Where an address lies.
struct SharedPlace {
  std::uint64_t id = 0;  // of the allocation: never 0, never used again by this process
  int descriptor = -1;   // of the file; others open it as /proc/<process>/fd/<descriptor>
  index_t bytes = 0;     // of the whole file
  index_t offset = 0;    // of the address in it
};

class SharedMemory {
 public:
  // Zeroed memory, all of it there: a shortage shows here, never as a signal on first use.
  // Null with errno ENOSPC or ENOMEM when memory is short; with another errno when this
  // system, or its limit on open files, has none to share.
  static std::byte* allocate(index_t bytes);
  // Frees memory from allocate(). The pages go back to the system even while others have
  // them mapped; others must not touch them any more.
  static void free(std::byte* data);

  static std::optional<SharedPlace> find(const std::byte* address);
  // How many allocations have been freed: what others have mapped is stale when this grows.
  static std::uint64_t freed();
};

}  // namespace llmtrain
