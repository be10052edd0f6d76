// The memory of the node's other ranks, in place. Shared memory (SharedMemory) is mapped
// here and needs no copy at all; any other is read and written by the kernel (Linux'
// cross-memory attach, process_vm_readv): one copy, where a stage takes two.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "peer_mappings.hpp"
#include "shared_area.hpp"

namespace llmtrain {

class PeerMemory {
 public:
  // Collective over `node`. Null on every rank unless all can reach all: the system may
  // forbid it (Yama's ptrace_scope, containers).
  static std::unique_ptr<PeerMemory> make(MPI_Comm node);

  // Collective: from open() to close() the others may reach what begins at `base`.
  // Neither returns before all ranks have called it.
  void open(std::byte* base);
  void close();

  // That rank's base in this process, until close(); null when it is not mapped and only
  // read() and write() reach it.
  std::byte* mapped(int node_rank) const {
    return mapped_[static_cast<std::size_t>(node_rank)];
  }
  // Bytes at `offset` from that rank's base. Throws Error(internal) when they cannot be
  // reached, as when the rank has died.
  void read(int node_rank, index_t offset, std::byte* to, index_t bytes) const;
  void write(int node_rank, index_t offset, const std::byte* from, index_t bytes) const;

 private:
  // What a rank tells the others.
  struct Notice {
    alignas(64) SharedArea::Counter meetings;  // how often it has opened or closed
    std::byte* base;
    SharedPlace place;    // of base, when it is shared
    std::uint64_t freed;  // SharedMemory::freed()
    pid_t process;
    std::uint64_t token;
  };

  explicit PeerMemory(MPI_Comm node);
  Notice& notice(int node_rank) const;
  bool reaches(int node_rank) const;
  void meet();

  SharedArea area_;
  std::uint64_t meetings_ = 0;
  std::uint64_t token_;  // read by the others to see whether they reach this process
  std::vector<std::byte*> base_, mapped_;  // by rank, while open
  PeerMappings mappings_;
};

}  // namespace llmtrain
