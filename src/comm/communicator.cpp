// The checks and counts that every communicator shares.
#include "llmtrain/comm/communicator.hpp"

#include "llmtrain/core/timer.hpp"

namespace llmtrain {

namespace {

void require_slices(const char* call, const TensorView& slice, const TensorView& full,
                    int size) {
  require(slice.dtype() == full.dtype(), "", call, ": dtypes differ");
  require(slice.count() * size == full.count(), "", call, ": full has ", full.count(),
          " elements, not ", size, " times ", slice.count());
}

}  // namespace

void Communicator::reduce_scatter(TensorView slice, TensorView full) {
  require_slices("reduce_scatter", slice, full, size());
  traffic_.reduce_scatter += (size() - 1) * slice.count();
  const Timer timer;
  do_reduce_scatter(slice, full);
  traffic_.seconds += timer.seconds();
}

void Communicator::all_gather(TensorView full, TensorView slice) {
  require_slices("all_gather", slice, full, size());
  traffic_.all_gather += (size() - 1) * slice.count();
  const Timer timer;
  do_all_gather(full, slice);
  traffic_.seconds += timer.seconds();
}

void Communicator::all_reduce(TensorView x) {
  // Rounded up: a count that ranks do not divide is reduced in slices of unequal length.
  traffic_.all_reduce += divide_up(2 * (size() - 1) * x.count(), size());
  const Timer timer;
  do_all_reduce(x);
  traffic_.seconds += timer.seconds();
}

}  // namespace llmtrain
