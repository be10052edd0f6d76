// Matrix products on the CPU by oneDNN's sgemm.
//
// Where the CPU cannot multiply them, 16-bit operands are turned into f32 a block at a time, small enough that the block is
// still in the second-level cache when it is multiplied; a thread computes whole blocks of
// the result.
#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {
namespace {

// Row-major, `stride` elements from row to row.
template <class T>
struct Matrix {
  T* data;
  index_t stride;
  Transpose transpose = Transpose::no;

  // Where the block starts whose first element of op(matrix) is (row, column).
  T* at(index_t row, index_t column) const {
    return transpose == Transpose::yes ? data + column * stride + row
                                       : data + row * stride + column;
  }
};

// out (=|+=) op(a) op(b), all f32; out [m, n], k terms.
void sgemm(Matrix<float> out, Matrix<const float> a, Matrix<const float> b, index_t m,
           index_t n, index_t k, Output output) {
  const auto letter = [](Transpose t) { return t == Transpose::yes ? 'T' : 'N'; };
  const dnnl::status status = dnnl::sgemm(
      letter(a.transpose), letter(b.transpose), m, n, k, 1.0f, a.data, a.stride, b.data,
      b.stride, output == Output::accumulate ? 1.0f : 0.0f, out.data, out.stride);
  require(status == dnnl::status::success, "matmul: oneDNN failed with status ",
          static_cast<int>(status));
}

void fill_rows(TensorView y, const float* bias) {
  float* const data = y.data<float>();
  const index_t rows = y.shape()[0], width = y.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t row = 0; row < rows; ++row) {
    std::copy_n(bias, width, data + row * width);
  }
}

void multiply_f32(TensorView out, TensorView a, TensorView b, TensorView bias,
                  MatmulOptions options) {
  if (bias.count() > 0) {
    fill_rows(out, bias.data<float>());
    options.output = Output::accumulate;
  }
  sgemm({out.data<float>(), out.shape()[1]}, {a.data<float>(), a.shape()[1], options.a},
        {b.data<float>(), b.shape()[1], options.b}, out.shape()[0], out.shape()[1],
        a.shape()[options.a == Transpose::yes ? 0 : 1], options.output);
}

bool all_f32(TensorView out, TensorView a) {
  return out.dtype() == Dtype::f32 && a.dtype() == Dtype::f32;
}

bool suits_bf16_units(TensorView out, TensorView a) {
  return a.dtype() == Dtype::bf16 && out.dtype() != Dtype::fp16 && has_bf16_units();
}

// How a product is cut: blocks [rows, columns] of the result, `depth` terms at a time.
struct Blocks {
  index_t rows = 512, columns = 512, depth = 512, count = 0;

  // Large enough to be worth the conversions, enough of them for all threads.
  Blocks(index_t m, index_t n, index_t k, int threads) {
    constexpr index_t kLeast = 128;
    const auto blocks = [&] { return divide_up(m, rows) * divide_up(n, columns); };
    while (threads > 1 && blocks() < 3 * threads && std::max(rows, columns) > kLeast) {
      (rows >= columns ? rows : columns) /= 2;
    }
    count = blocks();
    rows = std::min(rows, m);
    columns = std::min(columns, n);
    depth = std::min(depth, k);
  }
  index_t floats() const { return rows * depth + depth * columns + rows * columns; }
};

Blocks blocks_of(TensorView out, TensorView a, MatmulOptions options) {
  return {out.shape()[0], out.shape()[1], a.shape()[options.a == Transpose::yes ? 0 : 1],
          omp_get_max_threads()};
}

// The block [rows, columns] of op(from) at (row, column) as f32 in `to`, in the layout
// that it has in memory.
template <class T>
Matrix<const float> load_block(float* to, Matrix<const T> from, index_t row,
                               index_t column, index_t rows, index_t columns) {
  const T* const data = from.at(row, column);
  if (from.transpose == Transpose::yes) std::swap(rows, columns);
  for (index_t i = 0; i < rows; ++i) {
#pragma omp simd
    for (index_t j = 0; j < columns; ++j) {
      to[i * columns + j] = to_float(data[i * from.stride + j]);
    }
  }
  return {to, columns, from.transpose};
}

template <class T>
void store_block(Matrix<T> to, const float* from, index_t rows, index_t columns,
                 const T* bias, Output output) {
  for (index_t i = 0; i < rows; ++i) {
    T* const row = to.data + i * to.stride;
    const float* const sums = from + i * columns;
    if (output == Output::accumulate) {
#pragma omp simd
      for (index_t j = 0; j < columns; ++j) {
        row[j] = from_float<T>(to_float(row[j]) + sums[j]);
      }
    } else if (bias != nullptr) {
#pragma omp simd
      for (index_t j = 0; j < columns; ++j) {
        row[j] = from_float<T>(sums[j] + to_float(bias[j]));
      }
    } else {
#pragma omp simd
      for (index_t j = 0; j < columns; ++j) row[j] = from_float<T>(sums[j]);
    }
  }
}

// One product of 16-bit operands, cut into blocks.
template <class Out, class In>
class BlockedProduct {
 public:
  BlockedProduct(TensorView out, TensorView a, TensorView b, TensorView bias,
                 MatmulOptions options)
      : m_(out.shape()[0]),
        n_(out.shape()[1]),
        k_(a.shape()[options.a == Transpose::yes ? 0 : 1]),
        out_{out.data<Out>(), n_},
        a_{a.data<In>(), a.shape()[1], options.a},
        b_{b.data<In>(), b.shape()[1], options.b},
        bias_(bias.count() > 0 ? bias.data<Out>() : nullptr),
        output_(options.output),
        blocks_(blocks_of(out, a, options)) {}

  // Uses blocks_.floats() of scratch.
  void block(index_t index, float* scratch) const {
    const index_t across = divide_up(n_, blocks_.columns);
    const index_t row = index / across * blocks_.rows;
    const index_t column = index % across * blocks_.columns;
    const index_t rows = std::min(blocks_.rows, m_ - row);
    const index_t columns = std::min(blocks_.columns, n_ - column);
    float* const left = scratch;
    float* const right = left + blocks_.rows * blocks_.depth;
    float* const sums = right + blocks_.depth * blocks_.columns;
    for (index_t k = 0; k < k_; k += blocks_.depth) {
      const index_t depth = std::min(blocks_.depth, k_ - k);
      sgemm({sums, columns}, load_block(left, a_, row, k, rows, depth),
            load_block(right, b_, k, column, depth, columns), rows, columns, depth,
            k == 0 ? Output::overwrite : Output::accumulate);
    }
    store_block<Out>({out_.at(row, column), n_}, sums, rows, columns,
                     bias_ == nullptr ? nullptr : bias_ + column, output_);
  }

 private:
  index_t m_, n_, k_;
  Matrix<Out> out_;
  Matrix<const In> a_, b_;
  const Out* bias_;
  Output output_;
  Blocks blocks_;
};

template <class T, class Sum>
void add_column_sums_of(TensorView sums_tensor, TensorView x) {
  // Threads split the columns, so the order of additions does not depend on their number:
  // eight rows as a tree, the trees one by one within kRun rows, and the runs one by one.
  constexpr index_t kColumns = 256, kTree = 8, kRun = 128;
  const T* const data = x.data<T>();
  Sum* const sums = sums_tensor.data<Sum>();
  const index_t rows = x.shape()[0], width = x.shape()[1];
#pragma omp parallel for schedule(static)
  for (index_t begin = 0; begin < width; begin += kColumns) {
    const index_t count = std::min(kColumns, width - begin);
    alignas(64) float total[kColumns] = {};
    for (index_t c = 0; c < count; ++c) total[c] = to_float(sums[begin + c]);
    for (index_t run = 0; run < rows; run += kRun) {
      alignas(64) float partial[kColumns] = {};
      const index_t end = std::min(rows, run + kRun);
      index_t row = run;
      for (; row + kTree <= end; row += kTree) {
        const T* const p = data + row * width + begin;
        const auto at = [&](index_t i) { return to_float(p[i]); };
#pragma omp simd
        for (index_t c = 0; c < count; ++c) {
          partial[c] +=
              ((at(c) + at(c + width)) + (at(c + 2 * width) + at(c + 3 * width))) +
              ((at(c + 4 * width) + at(c + 5 * width)) +
               (at(c + 6 * width) + at(c + 7 * width)));
        }
      }
      for (; row < end; ++row) {
        const T* const p = data + row * width + begin;
#pragma omp simd
        for (index_t c = 0; c < count; ++c) partial[c] += to_float(p[c]);
      }
#pragma omp simd
      for (index_t c = 0; c < count; ++c) total[c] += partial[c];
    }
    for (index_t c = 0; c < count; ++c) sums[begin + c] = from_float<Sum>(total[c]);
  }
}

}  // namespace

Shape matmul_scratch(TensorView out, TensorView a, MatmulOptions options) {
  if (all_f32(out, a) || suits_bf16_units(out, a)) return {0};
  const Blocks blocks = blocks_of(out, a, options);
  return {std::min<index_t>(omp_get_max_threads(), blocks.count), blocks.floats()};
}

void matmul(TensorView out, TensorView a, TensorView b, TensorView bias,
            MatmulOptions options, TensorView scratch) {
  if (out.count() == 0) return;
  if (a.count() == 0) {
    require(bias.count() == 0, "matmul: a bias is added to a product without terms");
    if (options.output == Output::overwrite) fill(out, 0.0f);
    return;
  }
  if (all_f32(out, a)) return multiply_f32(out, a, b, bias, options);
  if (suits_bf16_units(out, a)) return matmul_bf16(out, a, b, bias, options);
  const int threads = static_cast<int>(scratch.shape()[0]);
  with_types(out.dtype(), a.dtype(), [&]<class Out, class In>(TypeTag<Out>, TypeTag<In>) {
    const BlockedProduct<Out, In> product(out, a, b, bias, options);
    const index_t count = blocks_of(out, a, options).count;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (index_t i = 0; i < count; ++i) {
      product.block(i, scratch.data<float>() + omp_get_thread_num() * scratch.shape()[1]);
    }
  });
}

void add_column_sums(TensorView sums, TensorView x) {
  with_types(x.dtype(), sums.dtype(), [&]<class T, class Sum>(TypeTag<T>, TypeTag<Sum>) {
    add_column_sums_of<T, Sum>(sums, x);
  });
}

}  // namespace llmtrain::ops::cpu
