// Memory that the ranks of one node share: an area of each rank, which all may use, and
// waiting for counters in it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "llmtrain/core/types.hpp"

namespace llmtrain {

class SharedArea {
 public:
  // `bytes` for each rank, aligned to 64. Collective over `node`, whose ranks share
  // memory. Throws Error(resources) when the memory cannot be had.
  SharedArea(MPI_Comm node, index_t bytes);
  ~SharedArea();
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(areas_.size()); }
  std::byte* of(int rank) const { return areas_[static_cast<std::size_t>(rank)]; }

  using Counter = std::atomic<std::uint64_t>;
  static_assert(Counter::is_always_lock_free, "counters are shared between processes");
  void wait_until_at_least(const Counter& counter, std::uint64_t value) const;

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  int spins_ = 0;  // before a waiting rank yields its core
  int rank_ = 0;
  std::vector<std::byte*> areas_;
};

}  // namespace llmtrain
