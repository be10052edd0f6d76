#include "shared_stage.hpp"

#include <sched.h>
#include <unistd.h>

#include <new>

#include "mpi_check.hpp"

namespace llmtrain {

namespace {

constexpr index_t kAlignment = 64;

// Every process maps the segment at a page, so the same area is moved by as much in all.
std::byte* aligned(void* area) {
  const auto address = reinterpret_cast<std::uintptr_t>(area);
  const auto up =
      static_cast<std::uintptr_t>(round_up(static_cast<index_t>(address), kAlignment));
  return static_cast<std::byte*>(area) + (up - address);
}

}  // namespace

SharedStage::SharedStage(MPI_Comm node) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
                "counters are shared between processes");
  int size = 0;
  MPI_Comm_rank(node, &rank_);
  MPI_Comm_size(node, &size);
  // A rank with a core of its own is back sooner than a time slice that is given away; with
  // more ranks than cores the awaited rank needs this core.
  spins_ = size <= sysconf(_SC_NPROCESSORS_ONLN) ? 20000 : 100;
  void* own = nullptr;
  MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
  const int code = MPI_Win_allocate_shared(bytes() + kAlignment, 1, MPI_INFO_NULL, node,
                                           &own, &window_);
  if (code != MPI_SUCCESS) {
    fail(Status::resources, "cannot allocate ", bytes() * size >> 10,
         " KiB of shared memory for ", size,
         " ranks; check the size and the free space of /dev/shm");
  }
  areas_.resize(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    MPI_Aint area_bytes = 0;
    int unit = 0;
    mpi_check(MPI_Win_shared_query(window_, r, &area_bytes, &unit,
                                   &areas_[static_cast<std::size_t>(r)]),
              "MPI_Win_shared_query");
    areas_[static_cast<std::size_t>(r)] = aligned(areas_[static_cast<std::size_t>(r)]);
  }
  new (aligned(own)) Counters{};
  MPI_Barrier(node);
}

SharedStage::~SharedStage() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Win_free(&window_);
}

void SharedStage::wait_until_at_least(const std::atomic<std::uint64_t>& counter,
                                      std::uint64_t value) const {
  for (int spin = 0; counter.load(std::memory_order_acquire) < value;) {
    if (++spin > spins_) sched_yield();
  }
}

SharedStage::Counters& SharedStage::counters(int node_rank) const {
  return *std::launder(
      reinterpret_cast<Counters*>(areas_[static_cast<std::size_t>(node_rank)]));
}

std::byte* SharedStage::slot(int node_rank) const {
  return areas_[static_cast<std::size_t>(node_rank)] + kHeader +
         static_cast<index_t>(exchange_ % 2) * kSlotBytes;
}

void SharedStage::begin() {
  ++exchange_;
  if (exchange_ <= 2) return;
  for (std::size_t r = 0; r < areas_.size(); ++r) {
    wait_until_at_least(counters(static_cast<int>(r)).consumed, exchange_ - 2);
  }
}

std::byte* SharedStage::own_slot() { return slot(rank_); }

void SharedStage::publish() {
  counters(rank_).published.store(exchange_, std::memory_order_release);
}

const std::byte* SharedStage::await(int node_rank) {
  wait_until_at_least(counters(node_rank).published, exchange_);
  return slot(node_rank);
}

void SharedStage::end() {
  counters(rank_).consumed.store(exchange_, std::memory_order_release);
}

}  // namespace llmtrain
