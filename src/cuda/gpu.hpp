// The one header that kernels include for CUDA: the toolkit's under nvcc; under a C++
// compiler, which has no GPU to run them on, the emulator of tests/emulation (CMake names
// its folder to the compiler).
#pragma once

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// GPU_SHARED(float, tile, [32][33]): `tile`, an array of the block, not initialised.
#define GPU_SHARED(type, name, extents) __shared__ type name extents

// GPU_DYNAMIC_SHARED(float, row): `row`, a pointer to the launch's dynamic_shared_bytes,
// aligned to 16.
#define GPU_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char gpu_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(gpu_dynamic_shared)

#else

#include "emulation.hpp"

// Each block's copy is an allocation of its own, so that an overrun is seen.
#define GPU_SHARED(type, name, extents)           \
  static const char name##_variable = 0;          \
  using name##_type = type extents;               \
  name##_type& name = *static_cast<name##_type*>( \
      ::emulation::static_shared(&name##_variable, sizeof(name##_type)))

#define GPU_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::emulation::dynamic_shared())

#endif
