# Every file of kernels. For nvcc, and for the C++ compiler of tests/emulation.
set(LLMTRAIN_CUDA_KERNELS
  ${CMAKE_CURRENT_LIST_DIR}/adamw.cu
  ${CMAKE_CURRENT_LIST_DIR}/cross_entropy.cu
  ${CMAKE_CURRENT_LIST_DIR}/norm.cu)
