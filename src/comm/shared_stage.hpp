// A staging area that the ranks of one node share: each rank owns two slots that it fills
// and the others read, and two counters that say how far it is.
//
// Exchange number s (1, 2, ...) uses slot s % 2 of every rank:
//   begin()   waits until all have read exchange s - 2 out of the slot
//   fill own slot, publish()
//   await(r)  waits until rank r has published; read its slot
//   end()     says that this rank has read all it needs
#pragma once

#include "shared_area.hpp"

namespace llmtrain {

class SharedStage {
 public:
  // Collective over `node`.
  explicit SharedStage(MPI_Comm node);

  static constexpr index_t kSlotBytes = 1 << 20;  // the fastest of 32 KiB to 1 MiB

  void begin();
  std::byte* own_slot();
  void publish();
  const std::byte* await(int node_rank);
  void end();

 private:
  struct Counters {
    alignas(64) SharedArea::Counter published;
    alignas(64) SharedArea::Counter consumed;
  };
  static constexpr index_t kHeader = 4096;
  static_assert(sizeof(Counters) <= kHeader);

  Counters& counters(int node_rank) const;
  std::byte* slot(int node_rank) const;

  SharedArea area_;
  std::uint64_t exchange_ = 0;
};

}  // namespace llmtrain
