// One block a row, which stays in registers from the first to the last pass: every tensor
// is read once and written once. Mean and variance in two passes, as on the CPU.
#include "cuda/kernels/norm.hpp"
#include "cuda/kernels/pack.hpp"
#include "cuda/kernels/reduce.hpp"
#include "cuda/launch.hpp"

namespace llmtrain::cuda {
namespace {

constexpr int kMostThreads = 1024, kGoodThreads = 256, kMostPacks = 4;

enum class Kind { layer, rms };

// Thread t holds packs t, t + blockDim.x, ... of its row.
template <class T, Kind kind, int pack, int packs>
__global__ void __launch_bounds__(kMostThreads) norm_rows(NormForward<T> a) {
  GPU_SHARED(float, slots, [2][kWarp]);
  const index_t first = static_cast<index_t>(blockIdx.x) * a.width;
  const int stride = static_cast<int>(blockDim.x) * pack;
  const int begin = static_cast<int>(threadIdx.x) * pack;
  const auto count = static_cast<float>(a.width);

  Floats<pack> r[packs];
  float sum = 0.0f;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = begin + p * stride;
    if (column >= a.width) continue;
    r[p] = load<pack>(a.x + first + column);
    if (a.delta != nullptr) {
      const Floats<pack> delta = load<pack>(a.delta + first + column);
#pragma unroll
      for (int i = 0; i < pack; ++i)
        r[p][i] = static_cast<float>(static_cast<T>(r[p][i] + delta[i]));
      store(a.residual + first + column, r[p]);
    }
#pragma unroll
    for (int i = 0; i < pack; ++i) sum += r[p][i];
  }
  const float mean = kind == Kind::layer ? block_sum(sum, slots[0]) / count : 0.0f;

  float squares = 0.0f;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (begin + p * stride >= a.width) continue;
#pragma unroll
    for (int i = 0; i < pack; ++i) squares += (r[p][i] - mean) * (r[p][i] - mean);
  }
  const float rstd = rsqrtf(block_sum(squares, slots[1]) / count + a.epsilon);
  if (threadIdx.x == 0) {
    float* const statistics = a.statistics + 2 * static_cast<index_t>(blockIdx.x);
    statistics[0] = mean;
    statistics[1] = rstd;
  }

#pragma unroll
  for (int p = 0; p < packs; ++p) {
    const int column = begin + p * stride;
    if (column >= a.width) continue;
    const Floats<pack> weight = load<pack>(a.weight + column);
    Floats<pack> bias{};
    if constexpr (kind == Kind::layer) bias = load<pack>(a.bias + column);
#pragma unroll
    for (int i = 0; i < pack; ++i)
      r[p][i] = (r[p][i] - mean) * rstd * weight[i] + bias[i];
    store(a.y + first + column, r[p]);
  }
}

template <class T, int pack, int packs>
cudaError_t launch_rows(const NormForward<T>& a, cudaStream_t stream) {
  const index_t threads = round_up(divide_up(a.width, pack * packs), kWarp);
  const LaunchConfig config{static_cast<unsigned>(a.tokens),
                            static_cast<unsigned>(threads), 0, stream};
  return a.bias != nullptr ? launch(norm_rows<T, Kind::layer, pack, packs>, config, a)
                           : launch(norm_rows<T, Kind::rms, pack, packs>, config, a);
}

}  // namespace

template <class T>
cudaError_t norm_forward(const NormForward<T>& a, cudaStream_t stream) {
  constexpr int pack = kPack<T>;
  if (a.tokens == 0) return cudaSuccess;
  const bool aligned =
      a.width % pack == 0 && are_aligned(a.y, a.x, a.delta, a.residual, a.weight, a.bias);
  if (a.width > kMostThreads * kMostPacks * (aligned ? pack : 1))
    return cudaErrorInvalidValue;
  if (!aligned) return launch_rows<T, 1, kMostPacks>(a, stream);
  if (a.width <= kGoodThreads * pack) return launch_rows<T, pack, 1>(a, stream);
  if (a.width <= kGoodThreads * pack * 2) return launch_rows<T, pack, 2>(a, stream);
  return launch_rows<T, pack, kMostPacks>(a, stream);
}

template cudaError_t norm_forward(const NormForward<float>&, cudaStream_t);
template cudaError_t norm_forward(const NormForward<__nv_bfloat16>&, cudaStream_t);
template cudaError_t norm_forward(const NormForward<__half>&, cudaStream_t);

}  // namespace llmtrain::cuda
