#include "messages.hpp"

#include "mpi_check.hpp"

namespace llmtrain {

namespace {

constexpr int kFirstTag = 1;  // exchanges within collectives have tag 0

}  // namespace

Messages::Ticket Messages::send(MPI_Comm comm, TensorView x, int to, int tag) {
  MPI_Request request;
  mpi_check(MPI_Isend(x.storage(), mpi_count(x.bytes()), MPI_BYTE, to, kFirstTag + tag,
                      comm, &request),
            "MPI_Isend");
  sends_.emplace(next_, request);
  return next_++;
}

void Messages::finish_send(Ticket ticket) {
  const auto send = sends_.find(ticket);
  require(send != sends_.end(), "no message ", ticket, " is on its way");
  mpi_check(MPI_Wait(&send->second, MPI_STATUS_IGNORE), "MPI_Wait");
  sends_.erase(send);
}

void Messages::receive(MPI_Comm comm, TensorView x, int from, int tag) {
  mpi_check(MPI_Recv(x.storage(), mpi_count(x.bytes()), MPI_BYTE, from, kFirstTag + tag,
                     comm, MPI_STATUS_IGNORE),
            "MPI_Recv");
}

}  // namespace llmtrain
