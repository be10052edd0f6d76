#include "peer_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <random>

#include "mpi_check.hpp"

namespace llmtrain {

namespace {

using Transfer = decltype(&process_vm_readv);

// Moves all bytes or says why not: 0 or an errno.
int transfer(Transfer call, pid_t process, std::byte* here, std::byte* there,
             index_t bytes) {
  while (bytes > 0) {
    const iovec local{here, static_cast<std::size_t>(bytes)};
    const iovec remote{there, static_cast<std::size_t>(bytes)};
    const ssize_t moved = call(process, &local, 1, &remote, 1, 0);
    if (moved <= 0) return moved < 0 ? errno : EIO;
    here += moved;
    there += moved;
    bytes -= moved;
  }
  return 0;
}

}  // namespace

std::unique_ptr<PeerMemory> PeerMemory::make(MPI_Comm node) {
  std::unique_ptr<PeerMemory> peers(new PeerMemory(node));
  int reached = 1;
  for (int r = 0; r < peers->area_.size(); ++r) reached &= peers->reaches(r);
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, node),
            "MPI_Allreduce");
  if (!reached) peers.reset();
  return peers;
}

PeerMemory::PeerMemory(MPI_Comm node)
    : area_(node, sizeof(Notice)),
      base_(static_cast<std::size_t>(area_.size())),
      mapped_(base_.size()),
      mappings_(area_.size()) {
  std::random_device random;
  token_ = static_cast<std::uint64_t>(random()) << 32 | random();
  Notice& own = *new (area_.of(area_.rank())) Notice{};
  own.base = reinterpret_cast<std::byte*>(&token_);
  own.process = getpid();
  own.token = token_;
  MPI_Barrier(node);
}

PeerMemory::Notice& PeerMemory::notice(int node_rank) const {
  return *std::launder(reinterpret_cast<Notice*>(area_.of(node_rank)));
}

// With separate process namespaces the number may be another process's: only one that
// holds the token is the peer. What is written to try that too is what is there already.
bool PeerMemory::reaches(int node_rank) const {
  const Notice& peer = notice(node_rank);
  std::uint64_t token = 0;
  const auto here = reinterpret_cast<std::byte*>(&token);
  return transfer(process_vm_readv, peer.process, here, peer.base, sizeof(token)) == 0 &&
         token == peer.token &&
         transfer(process_vm_writev, peer.process, here, peer.base, sizeof(token)) == 0;
}

void PeerMemory::meet() {
  notice(area_.rank()).meetings.store(++meetings_, std::memory_order_release);
  for (int r = 0; r < area_.size(); ++r) {
    area_.wait_until_at_least(notice(r).meetings, meetings_);
  }
}

void PeerMemory::open(std::byte* base) {
  Notice& own = notice(area_.rank());
  own.base = base;
  own.place = SharedMemory::find(base).value_or(SharedPlace{});
  own.freed = SharedMemory::freed();
  meet();
  for (int r = 0; r < area_.size(); ++r) {
    const Notice& peer = notice(r);
    base_[static_cast<std::size_t>(r)] = peer.base;
    mapped_[static_cast<std::size_t>(r)] =
        r == area_.rank() ? base
                          : mappings_.find(r, peer.process, peer.place, peer.freed);
  }
}

void PeerMemory::close() { meet(); }

void PeerMemory::read(int node_rank, index_t offset, std::byte* to, index_t bytes) const {
  const int error = transfer(process_vm_readv, notice(node_rank).process, to,
                             base_[static_cast<std::size_t>(node_rank)] + offset, bytes);
  if (error != 0) {
    fail(Status::internal, "cannot read ", bytes, " bytes of rank ", node_rank,
         " of this node: ", std::strerror(error));
  }
}

void PeerMemory::write(int node_rank, index_t offset, const std::byte* from,
                       index_t bytes) const {
  // One type of vector serves both calls; this one only reads here.
  const int error =
      transfer(process_vm_writev, notice(node_rank).process, const_cast<std::byte*>(from),
               base_[static_cast<std::size_t>(node_rank)] + offset, bytes);
  if (error != 0) {
    fail(Status::internal, "cannot write ", bytes, " bytes to rank ", node_rank,
         " of this node: ", std::strerror(error));
  }
}

}  // namespace llmtrain
