// A staging area that the ranks of one node share: each rank owns two slots that it fills
// and the others read, and two counters that say how far it is.
//
// Exchange number s (1, 2, ...) uses slot s % 2 of every rank:
//   begin()   waits until all have read exchange s - 2 out of the slot
//   fill own slot, publish()
//   await(r)  waits until rank r has published; read its slot
//   end()     says that this rank has read all it needs
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "llmtrain/core/types.hpp"

namespace llmtrain {

class SharedStage {
 public:
  // Collective over `node`, whose ranks share memory. Throws Error(resources) when the
  // shared memory cannot be had.
  explicit SharedStage(MPI_Comm node);
  ~SharedStage();
  SharedStage(const SharedStage&) = delete;
  SharedStage& operator=(const SharedStage&) = delete;

  static constexpr index_t kSlotBytes = 1 << 20;  // the fastest of 32 KiB to 1 MiB
  static constexpr index_t bytes() { return kHeader + 2 * kSlotBytes; }

  void begin();
  std::byte* own_slot();
  void publish();
  const std::byte* await(int node_rank);
  void end();

 private:
  struct Counters {
    alignas(64) std::atomic<std::uint64_t> published;
    alignas(64) std::atomic<std::uint64_t> consumed;
  };
  static constexpr index_t kHeader = 4096;
  static_assert(sizeof(Counters) <= kHeader);

  Counters& counters(int node_rank) const;
  std::byte* slot(int node_rank) const;

  void wait_until_at_least(const std::atomic<std::uint64_t>& counter,
                           std::uint64_t value) const;

  MPI_Win window_ = MPI_WIN_NULL;
  int spins_ = 0;  // before a waiting rank yields its core
  int rank_ = 0;
  std::uint64_t exchange_ = 0;
  std::vector<std::byte*> areas_;
};

}  // namespace llmtrain
