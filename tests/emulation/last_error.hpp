// What cudaGetLastError returns.
#pragma once

#include <cuda_runtime_api.h>

namespace emulation {

// Remembers a failure; returns its argument.
cudaError_t done(cudaError_t error);

}  // namespace emulation
