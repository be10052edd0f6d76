// Checked MPI calls and counts.
#pragma once

#include <mpi.h>

#include <limits>
#include <string>

#include "llmtrain/core/error.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain {

inline void mpi_check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(Status::internal, call, ": ", std::string(text, static_cast<std::size_t>(length)));
}

// MPI 3 counts are int.
inline int mpi_count(index_t count) {
  require(count >= 0 && count <= std::numeric_limits<int>::max(), "MPI count ", count);
  return static_cast<int>(count);
}

}  // namespace llmtrain
