#include "shared_area.hpp"

#include <sched.h>
#include <unistd.h>

#include "mpi_check.hpp"

namespace llmtrain {

namespace {

constexpr index_t kAlignment = 64;

// Every process maps the segment at a page, so the same area is moved by as much in all.
std::byte* aligned(std::byte* area) {
  const auto address = reinterpret_cast<std::uintptr_t>(area);
  const auto up =
      static_cast<std::uintptr_t>(round_up(static_cast<index_t>(address), kAlignment));
  return area + (up - address);
}

}  // namespace

SharedArea::SharedArea(MPI_Comm node, index_t bytes) {
  int size = 0;
  MPI_Comm_rank(node, &rank_);
  MPI_Comm_size(node, &size);
  // A rank with a core of its own is back sooner than a time slice that is given away;
  // with more ranks than cores the awaited rank needs this core.
  spins_ = size <= sysconf(_SC_NPROCESSORS_ONLN) ? 20000 : 100;
  void* own = nullptr;
  MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
  const int code =
      MPI_Win_allocate_shared(bytes + kAlignment, 1, MPI_INFO_NULL, node, &own, &window_);
  if (code != MPI_SUCCESS) {
    fail(Status::resources, "cannot allocate ", bytes * size >> 10,
         " KiB of shared memory for ", size,
         " ranks; check the size and the free space of /dev/shm");
  }
  areas_.resize(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    MPI_Aint area_bytes = 0;
    int unit = 0;
    std::byte*& area = areas_[static_cast<std::size_t>(r)];
    mpi_check(MPI_Win_shared_query(window_, r, &area_bytes, &unit, &area),
              "MPI_Win_shared_query");
    area = aligned(area);
  }
}

SharedArea::~SharedArea() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Win_free(&window_);
}

void SharedArea::wait_until_at_least(const Counter& counter, std::uint64_t value) const {
  for (int spin = 0; counter.load(std::memory_order_acquire) < value;) {
    if (++spin > spins_) sched_yield();
  }
}

}  // namespace llmtrain
