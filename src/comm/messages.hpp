// Messages between two ranks over MPI: sends that are waited for later.
#pragma once

#include <mpi.h>

#include <map>

#include "llmtrain/comm/communicator.hpp"

namespace llmtrain {

class Messages {
 public:
  using Ticket = Communicator::Ticket;

  // As Communicator's calls of these names.
  Ticket send(MPI_Comm comm, TensorView x, int to, int tag);
  void finish_send(Ticket ticket);
  void receive(MPI_Comm comm, TensorView x, int from, int tag);

 private:
  std::map<Ticket, MPI_Request> sends_;  // not finished
  Ticket next_ = 0;
};

}  // namespace llmtrain
