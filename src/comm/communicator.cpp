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

Communicator::Ticket Communicator::send(TensorView x, int to, int tag) {
  require(to >= 0 && to < size() && to != rank(), "a message to rank ", to, " of ",
          size());
  traffic_.messages += x.count();
  const Timer timer;
  const Ticket ticket = do_send(x, to, tag);
  traffic_.seconds += timer.seconds();
  return ticket;
}

void Communicator::finish_send(Ticket ticket) {
  const Timer timer;
  do_finish_send(ticket);
  traffic_.seconds += timer.seconds();
}

void Communicator::receive(TensorView x, int from, int tag) {
  require(from >= 0 && from < size() && from != rank(), "a message from rank ", from,
          " of ", size());
  const Timer timer;
  do_receive(x, from, tag);
  traffic_.seconds += timer.seconds();
}

}  // namespace llmtrain
