// MPI's life in this process, and the communicators over it.
#pragma once

#include <memory>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain {

// Initialises MPI (only the calling thread may communicate) and finalises it, unless
// another owner has done so. One per process, in main. Works without mpirun as a world of
// one.
class MpiRuntime {
 public:
  MpiRuntime(int* argc, char*** argv);
  ~MpiRuntime();
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  // Ends every rank of the job with `status`. Not collective; does not return.
  [[noreturn]] static void abort(Status status);

  // The library's version string.
  static std::string version();

 private:
  bool owner_;
};

// How tensors move between ranks of one node: by reading and writing each other's memory
// where the system allows it, or through a stage that they share.
enum class WithinNode { fastest, staged };

// All ranks. Collective. Ranks of one node reach each other through memory, others by
// pairwise messages; `ranks_per_node` > 0 pretends that nodes hold that many consecutive
// ranks, so that both paths can be tested on one machine.
std::unique_ptr<Communicator> make_world_communicator(
    int ranks_per_node = 0, WithinNode within_node = WithinNode::fastest);

}  // namespace llmtrain
