#include "llmtrain/comm/mpi_runtime.hpp"

#include <mpi.h>

#include <cstdlib>

#include "mpi_check.hpp"

namespace llmtrain {

MpiRuntime::MpiRuntime(int* argc, char*** argv) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  owner_ = !initialized;
  if (!owner_) return;
  int provided = 0;
  mpi_check(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided),
            "MPI_Init_thread");
  if (provided < MPI_THREAD_FUNNELED) {
    fail(Status::resources,
         "this MPI library cannot be used by a program with threads "
         "(MPI_THREAD_FUNNELED)");
  }
}

MpiRuntime::~MpiRuntime() {
  if (owner_) MPI_Finalize();
}

void MpiRuntime::abort(Status status) {
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  std::_Exit(static_cast<int>(status));
}

std::string MpiRuntime::version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace llmtrain
