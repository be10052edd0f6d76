// The one way to start a kernel: launch(kernel<float>, {grid, block, bytes, stream}, ...).
#pragma once

#include "cuda/gpu.hpp"

namespace llmtrain::cuda {

struct LaunchConfig {
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// What a kernel gets without asking for more.
constexpr std::size_t kPlainDynamicSharedBytes = 48 * 1024;

// Arguments are converted to the kernel's parameter types. Does not wait.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const LaunchConfig& config,
                   const Arguments&... arguments) {
  if (config.dynamic_shared_bytes > kPlainDynamicSharedBytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(config.dynamic_shared_bytes));
    if (error != cudaSuccess) return error;
  }
#ifdef __CUDACC__
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.dynamic_shared_bytes;
  launch_config.stream = config.stream;
  return cudaLaunchKernelEx(&launch_config, kernel,
                            static_cast<Parameters>(arguments)...);
#else
  return emulation::launch(kernel, config.grid, config.block, config.dynamic_shared_bytes,
                           config.stream, static_cast<Parameters>(arguments)...);
#endif
}

}  // namespace llmtrain::cuda
