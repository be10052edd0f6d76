// One thread updates eight neighbouring elements with 16-byte accesses; the few before the
// first boundary of a range and behind the last one go one by one.
#include <algorithm>
#include <cmath>

#include "cuda/kernels/adamw.hpp"
#include "cuda/kernels/pack.hpp"
#include "cuda/launch.hpp"

namespace llmtrain::cuda {
namespace {

constexpr int kThreads = 256, kElements = 8;
// Ranges travel as a kernel argument, of which there are 4096 bytes.
constexpr int kMostRanges = 32;

// What is the same for all elements: computed in double, rounded once.
struct Factors {
  float gradient_scale, keep, old1, new1, old2, new2, size, unbias, epsilon;
};

Factors factors_of(const ops::AdamWStep& step) {
  const double lr = step.learning_rate, beta1 = step.beta1, beta2 = step.beta2;
  const auto t = static_cast<double>(step.t);
  return {.gradient_scale = step.gradient_scale,
          .keep = static_cast<float>(1.0 - lr * step.weight_decay),
          .old1 = step.beta1,
          .new1 = static_cast<float>(1.0 - beta1),
          .old2 = step.beta2,
          .new2 = static_cast<float>(1.0 - beta2),
          .size = static_cast<float>(lr / (1.0 - std::pow(beta1, t))),
          .unbias = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, t))),
          .epsilon = step.epsilon};
}

template <class W, class G>
struct Ranges {
  struct Piece {
    AdamWRange<W, G> range;
    int head;              // elements before the first boundary
    unsigned first_block;  // of those that work on it
  };
  Piece pieces[kMostRanges];
  int count = 0;
};

// old * factor + value * share, each operation rounded: a fused one would differ from the
// CPU's.
__device__ float decay_towards(float old, float factor, float value, float share) {
  return __fadd_rn(__fmul_rn(factor, old), __fmul_rn(share, value));
}

template <int count, class W, class G>
__device__ void update(const AdamWRange<W, G>& range, index_t at, const Factors& f) {
  Floats<count> weight = load<count>(range.master + at);
  Floats<count> first = load<count>(range.exp_avg + at);
  Floats<count> second = load<count>(range.exp_avg_sq + at);
  const Floats<count> gradient = load<count>(range.gradient + at);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float g = __fmul_rn(f.gradient_scale, gradient[i]);
    first[i] = decay_towards(first[i], f.old1, g, f.new1);
    second[i] = decay_towards(second[i], f.old2, __fmul_rn(g, g), f.new2);
    const float root = __fmul_rn(__fsqrt_rn(second[i]), f.unbias);
    const float change =
        __fdiv_rn(__fmul_rn(f.size, first[i]), __fadd_rn(root, f.epsilon));
    weight[i] = __fsub_rn(__fmul_rn(f.keep, weight[i]), change);
  }
  store(range.exp_avg + at, first);
  store(range.exp_avg_sq + at, second);
  store(range.master + at, weight);
  if constexpr (sizeof(W) < sizeof(float)) store(range.weight + at, weight);
}

template <class W, class G, int count>
__global__ void __launch_bounds__(kThreads)
    adamw_ranges(const __grid_constant__ Ranges<W, G> ranges,
                 const __grid_constant__ Factors factors) {
  int r = 0;
  while (r + 1 < ranges.count && blockIdx.x >= ranges.pieces[r + 1].first_block) ++r;
  const auto& piece = ranges.pieces[r];
  const index_t groups = (piece.range.count - piece.head) / count;
  const index_t block = blockIdx.x - piece.first_block;
  const index_t group = block * kThreads + threadIdx.x;
  if (group < groups) update<count>(piece.range, piece.head + group * count, factors);
  if (block != 0) return;
  const index_t thread = threadIdx.x, tail = piece.head + groups * count + thread;
  if (thread < piece.head) update<1>(piece.range, thread, factors);
  if (tail < piece.range.count) update<1>(piece.range, tail, factors);
}

// The number of elements before all pointers are aligned, or -1 if they never are.
template <class W, class G>
int head_of(const AdamWRange<W, G>& range) {
  for (int head = 0; head < kElements; ++head) {
    if (are_aligned(range.master + head, range.exp_avg + head, range.exp_avg_sq + head,
                    range.gradient + head, range.weight ? range.weight + head : nullptr))
      return static_cast<int>(std::min<index_t>(head, range.count));
  }
  return -1;
}

// Collects ranges and launches them, as many at a time as an argument holds.
template <class W, class G, int count>
class Batch {
 public:
  Batch(const Factors& factors, cudaStream_t stream)
      : factors_(factors), stream_(stream) {}

  cudaError_t add(const AdamWRange<W, G>& range, int head) {
    if (ranges_.count == kMostRanges) {
      const cudaError_t error = flush();
      if (error != cudaSuccess) return error;
    }
    ranges_.pieces[ranges_.count++] = {range, head, blocks_};
    const index_t blocks = divide_up((range.count - head) / count, kThreads);
    blocks_ += static_cast<unsigned>(std::max<index_t>(blocks, 1));
    return cudaSuccess;
  }

  cudaError_t flush() {
    if (ranges_.count == 0) return cudaSuccess;
    const LaunchConfig config{blocks_, kThreads, 0, stream_};
    const cudaError_t error =
        launch(adamw_ranges<W, G, count>, config, ranges_, factors_);
    ranges_ = {};
    blocks_ = 0;
    return error;
  }

 private:
  Factors factors_;
  cudaStream_t stream_;
  Ranges<W, G> ranges_{};
  unsigned blocks_ = 0;
};

}  // namespace

template <class W, class G>
cudaError_t adamw(std::span<const AdamWRange<W, G>> ranges, const ops::AdamWStep& step,
                  cudaStream_t stream) {
  const Factors factors = factors_of(step);
  Batch<W, G, kElements> aligned(factors, stream);
  Batch<W, G, 1> others(factors, stream);
  for (const AdamWRange<W, G>& range : ranges) {
    if (range.count == 0) continue;
    const int head = head_of(range);
    const cudaError_t error = head >= 0 ? aligned.add(range, head) : others.add(range, 0);
    if (error != cudaSuccess) return error;
  }
  const cudaError_t error = aligned.flush();
  return error == cudaSuccess ? others.flush() : error;
}

template cudaError_t adamw(std::span<const AdamWRange<float, float>>,
                           const ops::AdamWStep&, cudaStream_t);
template cudaError_t adamw(std::span<const AdamWRange<float, __nv_bfloat16>>,
                           const ops::AdamWStep&, cudaStream_t);
template cudaError_t adamw(std::span<const AdamWRange<float, __half>>,
                           const ops::AdamWStep&, cudaStream_t);
template cudaError_t adamw(std::span<const AdamWRange<__nv_bfloat16, __nv_bfloat16>>,
                           const ops::AdamWStep&, cudaStream_t);
template cudaError_t adamw(std::span<const AdamWRange<__nv_bfloat16, float>>,
                           const ops::AdamWStep&, cudaStream_t);
template cudaError_t adamw(std::span<const AdamWRange<__half, __half>>,
                           const ops::AdamWStep&, cudaStream_t);
template cudaError_t adamw(std::span<const AdamWRange<__half, float>>,
                           const ops::AdamWStep&, cudaStream_t);

}  // namespace llmtrain::cuda
