// The memory of other ranks, reached in place.
#include "comm/peer_memory.hpp"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fstream>

#include "llmtrain/core/error.hpp"

namespace llmtrain {
namespace {

// Every process of a user may reach the others unless the system says otherwise: by Yama,
// or by a filter of system calls, which forbids a process to read even itself.
bool peers_are_forbidden() {
  int scope = 0, from = 1, to = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  const iovec here{&to, sizeof(to)}, there{&from, sizeof(from)};
  return scope > 0 || process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0;
}

TEST(PeerMemory, ReadsAndWritesInPlace) {
  MPI_Comm node;
  MPI_Comm_dup(MPI_COMM_WORLD, &node);
  int rank = 0, size = 1;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  const int next = (rank + 1) % size;
  auto peers = PeerMemory::make(node);
  if (!peers) {
    EXPECT_TRUE(peers_are_forbidden());
    return;  // on all ranks
  }
  int data[] = {rank, -1, -1};
  peers->open(reinterpret_cast<std::byte*>(data));
  peers->write(next, 4, reinterpret_cast<const std::byte*>(&rank), 4);
  peers->read(next, 0, reinterpret_cast<std::byte*>(&data[2]), 4);
  // A page that nobody has: what is left of a rank that has died.
  std::byte byte{};
  EXPECT_THROW(peers->read(next, -(index_t{1} << 46), &byte, 1), Error);
  EXPECT_THROW(peers->write(next, -(index_t{1} << 46), &byte, 1), Error);
  peers->close();
  EXPECT_EQ(data[1], (rank + size - 1) % size);
  EXPECT_EQ(data[2], next);
  peers.reset();
  MPI_Comm_free(&node);
}

}  // namespace
}  // namespace llmtrain
