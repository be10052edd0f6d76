// What this process has mapped of the node's other ranks' shared memory: by rank and
// allocation, from the first use until a rank frees any of its own.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "llmtrain/device/shared_memory.hpp"

namespace llmtrain {

class PeerMappings {
 public:
  explicit PeerMappings(int ranks) : of_rank_(static_cast<std::size_t>(ranks)) {}
  ~PeerMappings();
  PeerMappings(const PeerMappings&) = delete;
  PeerMappings& operator=(const PeerMappings&) = delete;

  // The rank's `place` in this process, or null when it cannot be mapped. The allocation
  // must be alive during the call and while the address is used. `freed` is how many the
  // rank's process, `process`, has freed.
  std::byte* find(int rank, pid_t process, const SharedPlace& place, std::uint64_t freed);

 private:
  struct Mapping {
    std::byte* data;  // null: tried in vain
    index_t bytes;
  };
  struct OfRank {
    std::uint64_t freed = 0;
    std::map<std::uint64_t, Mapping> by_id;
  };
  static void drop(OfRank& all);

  std::vector<OfRank> of_rank_;
};

}  // namespace llmtrain
