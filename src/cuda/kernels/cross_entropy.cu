// One block a row. The first pass keeps the largest logit and the sum of exponentials
// relative to it together (online softmax: Milakov & Gimelshein 2018, algorithm 3); the
// second, which finds the row in the second-level cache, writes the gradient over it.
#include <cassert>
#include <cfloat>
#include <cmath>

#include "cuda/kernels/cross_entropy.hpp"
#include "cuda/kernels/pack.hpp"
#include "cuda/kernels/reduce.hpp"
#include "cuda/launch.hpp"
#include "llmtrain/ops/cross_entropy.hpp"

namespace llmtrain::cuda {
namespace {

constexpr int kMostThreads = 512;

enum class Gradient { none, in_place };

// sum of exp(x - max) over the x seen so far.
struct Softmax {
  float max, sum;
};

// Finite, so that exp(max - max) is 1 also for who has seen nothing or minus infinity only.
__device__ Softmax nothing_seen() { return {-FLT_MAX, 0.0f}; }

__device__ Softmax combine(Softmax a, Softmax b) {
  const float max = fmaxf(a.max, b.max);
  return {max, a.sum * __expf(a.max - max) + b.sum * __expf(b.max - max)};
}

__device__ Softmax exchange(Softmax x, int lanes) {
  return {__shfl_xor_sync(kAllLanes, x.max, lanes),
          __shfl_xor_sync(kAllLanes, x.sum, lanes)};
}

template <int pack>
__device__ Softmax add(Softmax seen, const Floats<pack>& x) {
  float max = seen.max;
#pragma unroll
  for (int i = 0; i < pack; ++i) max = fmaxf(max, x[i]);
  float sum = seen.sum * __expf(seen.max - max);
#pragma unroll
  for (int i = 0; i < pack; ++i) sum += __expf(x[i] - max);
  return {max, sum};
}

template <class T, Gradient gradient, int pack>
__global__ void __launch_bounds__(kMostThreads)
    cross_entropy_rows(CrossEntropy<T> a, float scale) {
  GPU_SHARED(Softmax, slots, [kWarp]);
  const int stride = static_cast<int>(blockDim.x) * pack;
  const int begin = static_cast<int>(threadIdx.x) * pack;
  T* const row = a.logits + static_cast<index_t>(blockIdx.x) * a.columns;
  const int label = a.labels[blockIdx.x];

  if (label == ops::kIgnoredLabel) {  // the whole block
    if (threadIdx.x == 0) a.losses[blockIdx.x] = 0.0f;
    if constexpr (gradient == Gradient::in_place) {
      for (int column = begin; column < a.columns; column += stride)
        store(row + column, Floats<pack>{});
    }
    return;
  }

  Softmax seen = nothing_seen();
  for (int column = begin; column < a.vocabulary; column += stride) {
    Floats<pack> x = load<pack>(row + column);
#pragma unroll
    for (int i = 0; i < pack; ++i) {
      if (column + i >= a.vocabulary) x[i] = -INFINITY;
    }
    seen = add(seen, x);
  }
  // Read before the barrier in the reduction: behind it the gradient takes its place.
  float label_logit = 0.0f;
  if (threadIdx.x == 0) {
    assert(label >= 0 && label < a.vocabulary);
    label_logit = static_cast<float>(row[label]);
  }
  const Softmax all = block_reduce(seen, nothing_seen(), &slots[0], exchange, combine);
  if (threadIdx.x == 0) a.losses[blockIdx.x] = logf(all.sum) + (all.max - label_logit);

  if constexpr (gradient == Gradient::in_place) {
    const float factor = scale / all.sum;
    for (int column = begin; column < a.columns; column += stride) {
      Floats<pack> x = load<pack>(row + column);
#pragma unroll
      for (int i = 0; i < pack; ++i) {
        const int c = column + i;
        const float probability =
            c < a.vocabulary ? factor * __expf(x[i] - all.max) : 0.0f;
        x[i] = c == label ? probability - scale : probability;
      }
      store(row + column, x);
    }
  }
}

template <class T, Gradient gradient, int pack>
cudaError_t launch_rows(const CrossEntropy<T>& a, float scale, cudaStream_t stream) {
  const index_t wanted = round_up(divide_up(a.columns, pack), kWarp);
  const index_t threads = wanted < kMostThreads ? wanted : kMostThreads;
  return launch(
      cross_entropy_rows<T, gradient, pack>,
      {static_cast<unsigned>(a.tokens), static_cast<unsigned>(threads), 0, stream}, a,
      scale);
}

template <class T, Gradient gradient>
cudaError_t dispatch(const CrossEntropy<T>& a, float scale, cudaStream_t stream) {
  if (a.tokens == 0) return cudaSuccess;
  return a.columns % kPack<T> == 0 && are_aligned(a.logits)
             ? launch_rows<T, gradient, kPack<T>>(a, scale, stream)
             : launch_rows<T, gradient, 1>(a, scale, stream);
}

}  // namespace

template <class T>
cudaError_t cross_entropy(const CrossEntropy<T>& arguments, cudaStream_t stream) {
  return dispatch<T, Gradient::none>(arguments, 0.0f, stream);
}

template <class T>
cudaError_t cross_entropy_with_gradient(const CrossEntropy<T>& arguments, float scale,
                                        cudaStream_t stream) {
  return dispatch<T, Gradient::in_place>(arguments, scale, stream);
}

template cudaError_t cross_entropy(const CrossEntropy<float>&, cudaStream_t);
template cudaError_t cross_entropy(const CrossEntropy<__nv_bfloat16>&, cudaStream_t);
template cudaError_t cross_entropy(const CrossEntropy<__half>&, cudaStream_t);
template cudaError_t cross_entropy_with_gradient(const CrossEntropy<float>&, float,
                                                 cudaStream_t);
template cudaError_t cross_entropy_with_gradient(const CrossEntropy<__nv_bfloat16>&,
                                                 float, cudaStream_t);
template cudaError_t cross_entropy_with_gradient(const CrossEntropy<__half>&, float,
                                                 cudaStream_t);

}  // namespace llmtrain::cuda
