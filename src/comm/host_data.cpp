#include "host_data.hpp"

#include "mpi_check.hpp"

namespace llmtrain {

std::vector<double> all_gather_values(MPI_Comm comm, std::span<const double> values) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::vector<double> result(values.size() * static_cast<std::size_t>(size));
  const int count = mpi_count(static_cast<index_t>(values.size()));
  mpi_check(MPI_Allgather(values.data(), count, MPI_DOUBLE, result.data(), count,
                          MPI_DOUBLE, comm),
            "MPI_Allgather");
  return result;
}

std::vector<std::string> all_gather_bytes(MPI_Comm comm, const std::string& bytes) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  const auto n = static_cast<std::size_t>(size);
  const int own = mpi_count(static_cast<index_t>(bytes.size()));
  std::vector<int> counts(n), offsets(n);
  mpi_check(MPI_Allgather(&own, 1, MPI_INT, counts.data(), 1, MPI_INT, comm),
            "MPI_Allgather");
  index_t total = 0;
  for (std::size_t r = 0; r < n; ++r) {
    offsets[r] = mpi_count(total);
    total += counts[r];
  }
  std::string joined(static_cast<std::size_t>(mpi_count(total)), '\0');
  mpi_check(MPI_Allgatherv(bytes.data(), own, MPI_BYTE, joined.data(), counts.data(),
                           offsets.data(), MPI_BYTE, comm),
            "MPI_Allgatherv");
  std::vector<std::string> result;
  for (std::size_t r = 0; r < n; ++r) {
    result.push_back(joined.substr(static_cast<std::size_t>(offsets[r]),
                                   static_cast<std::size_t>(counts[r])));
  }
  return result;
}

std::string broadcast_bytes(MPI_Comm comm, const std::string& bytes, int root) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  int count = rank == root ? mpi_count(static_cast<index_t>(bytes.size())) : 0;
  mpi_check(MPI_Bcast(&count, 1, MPI_INT, root, comm), "MPI_Bcast");
  std::string result = bytes;
  result.resize(static_cast<std::size_t>(count));
  mpi_check(MPI_Bcast(result.data(), count, MPI_BYTE, root, comm), "MPI_Bcast");
  return result;
}

}  // namespace llmtrain
