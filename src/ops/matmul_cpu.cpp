// Matrix products on the CPU by oneDNN's sgemm.
#include <algorithm>
#include <dnnl.hpp>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {
namespace {

void fill_rows(TensorView y, const float* bias) {
  float* const data = y.data<float>();
  const index_t rows = y.shape()[0], width = y.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t row = 0; row < rows; ++row) {
    std::copy_n(bias, width, data + row * width);
  }
}

// sums[c] += the sum over rows of x[:, c]. Threads split the columns, so the order of
// additions does not depend on their number: eight rows as a tree, the trees one by one
// within kRun rows, and the runs one by one.
void add_column_sums(float* sums, TensorView x) {
  constexpr index_t kColumns = 256, kTree = 8, kRun = 128;
  const float* const data = x.data<float>();
  const index_t rows = x.shape()[0], width = x.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t begin = 0; begin < width; begin += kColumns) {
    const index_t count = std::min(kColumns, width - begin);
    for (index_t run = 0; run < rows; run += kRun) {
      alignas(64) float partial[kColumns] = {};
      const index_t end = std::min(rows, run + kRun);
      index_t row = run;
      for (; row + kTree <= end; row += kTree) {
        const float* const p = data + row * width + begin;
#pragma omp simd
        for (index_t c = 0; c < count; ++c) {
          partial[c] += ((p[c] + p[c + width]) + (p[c + 2 * width] + p[c + 3 * width])) +
                        ((p[c + 4 * width] + p[c + 5 * width]) +
                         (p[c + 6 * width] + p[c + 7 * width]));
        }
      }
      for (; row < end; ++row) {
        const float* const p = data + row * width + begin;
#pragma omp simd
        for (index_t c = 0; c < count; ++c) partial[c] += p[c];
      }
#pragma omp simd
      for (index_t c = 0; c < count; ++c) sums[begin + c] += partial[c];
    }
  }
}

}  // namespace

void matmul(TensorView out, TensorView a, TensorView b, MatmulOptions options) {
  const index_t m = out.shape()[0], n = out.shape()[1];
  const index_t k = a.shape()[options.a == Transpose::yes ? 0 : 1];
  const bool accumulate = options.output == Output::accumulate;
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) fill(out, 0.0f);
    return;
  }
  const auto letter = [](Transpose t) { return t == Transpose::yes ? 'T' : 'N'; };
  const dnnl::status status = dnnl::sgemm(
      letter(options.a), letter(options.b), m, n, k, 1.0f, a.data<float>(), a.shape()[1],
      b.data<float>(), b.shape()[1], accumulate ? 1.0f : 0.0f, out.data<float>(), n);
  require(status == dnnl::status::success, "matmul: oneDNN failed with status ",
          static_cast<int>(status));
}

void linear_forward(TensorView y, TensorView x, TensorView weight, TensorView bias) {
  MatmulOptions options{.b = Transpose::yes};
  if (bias.count() > 0) {
    fill_rows(y, bias.data<float>());
    options.output = Output::accumulate;
  }
  matmul(y, x, weight, options);
}

void linear_backward(const LinearGradients& gradients, TensorView dy, TensorView x,
                     TensorView weight) {
  if (gradients.dx.count() > 0) matmul(gradients.dx, dy, weight, {});
  matmul(gradients.dweight, dy, x, {.a = Transpose::yes, .output = Output::accumulate});
  if (gradients.dbias.count() > 0) add_column_sums(gradients.dbias.data<float>(), dy);
}

}  // namespace llmtrain::ops::cpu
