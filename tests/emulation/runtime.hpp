// The emulated device: what a test can set, and how libraries that stand in for cuBLAS or
// NCCL put work into a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

#include "schedule.hpp"

namespace emulation {

// Puts work into a stream. `work` is called when its turn comes, and again and again until
// it returns true: a collective starts its messages, then tests them, and never blocks.
// During a call device memory is accessible.
cudaError_t enqueue(cudaStream_t stream, std::function<bool()> work);

// Lets every stream go on as far as it can without waiting. For code that waits for another
// process by other means than CUDA: the GPU would work meanwhile.
void progress();

// Called whenever a synchronisation waits for work that cannot be finished yet.
void set_progress_hook(std::function<void()> hook);

// What cudaMalloc can give altogether; at first 1 GiB.
void set_device_bytes(std::size_t bytes);

// Whether [address, address + bytes) lies in one live allocation of device memory.
bool is_device_memory(const void* address, std::size_t bytes);

}  // namespace emulation
