// The emulator seen from below the qualifiers and indices of CUDA C++: what emulation.hpp
// and launch() are made of.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <source_location>
#include <type_traits>

namespace emulation {

// Of the running thread; its block; its grid.
extern const uint3* thread_index;
extern uint3 block_index;
extern dim3 block_dim, grid_dim;

// A place where threads wait for each other: which function of CUDA, called where.
struct Call {
  const char* name;
  std::source_location site;
};
using Site = std::source_location;

// All threads of the block must come here. Returns how many gave a true predicate.
unsigned barrier(Call call, bool predicate);

// All lanes of `mask` must come here. Each gets the value of its source lane, the fold of
// all values in the order of the lanes, or nothing.
using Combine = std::uint64_t (*)(std::uint64_t, std::uint64_t);
std::uint64_t shuffle(Call call, unsigned mask, std::uint64_t value, unsigned source);
std::uint64_t reduce(Call call, unsigned mask, std::uint64_t value, Combine combine);
void sync_warp(Call call, unsigned mask);

unsigned lane();
// Lets the other threads of the block run first.
void sleep();

// Memory of the running block, filled with 0xff (a NaN in every type) before its first use.
void* static_shared(const void* variable, std::size_t bytes);
void* dynamic_shared();

enum class Argument { value, pointer };
struct Kernel {
  const void* address;
  dim3 grid, block;
  std::size_t dynamic_shared_bytes;
  std::function<void()> body;  // what each thread runs
};
// The arguments that `check_argument` refuses end the process with a report: addresses of
// host memory, as pointers or anywhere inside a structure.
void check_argument(int number, Argument kind, const void* value, std::size_t bytes);
cudaError_t enqueue(Kernel kernel, cudaStream_t stream);

template <class... P>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block,
                   std::size_t dynamic_shared_bytes, cudaStream_t stream,
                   std::type_identity_t<P>... arguments) {
  int number = 0;
  (check_argument(++number, std::is_pointer_v<P> ? Argument::pointer : Argument::value,
                  &arguments, sizeof(P)),
   ...);
  return enqueue({reinterpret_cast<const void*>(kernel), grid, block,
                  dynamic_shared_bytes, [=] { kernel(arguments...); }},
                 stream);
}

}  // namespace emulation
