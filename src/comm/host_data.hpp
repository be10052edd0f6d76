// Host data over MPI: values and bytes, as the communicator's interface says.
#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <vector>

namespace llmtrain {

std::vector<double> all_gather_values(MPI_Comm comm, std::span<const double> values);
std::vector<std::string> all_gather_bytes(MPI_Comm comm, const std::string& bytes);
std::string broadcast_bytes(MPI_Comm comm, const std::string& bytes, int root);

}  // namespace llmtrain
