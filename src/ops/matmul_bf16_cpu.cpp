// Products of bf16 matrices on the CPU's own bf16 units (AVX512-BF16, AMX), by oneDNN.
#include <dnnl.hpp>
#include <unordered_map>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {
namespace {

using dnnl::memory;

memory::data_type type_of(TensorView x) {
  return x.dtype() == Dtype::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// op(x) as oneDNN sees it: [rows, columns] with strides.
memory::desc operand(TensorView x, Transpose transpose) {
  const index_t rows = x.shape()[0], columns = x.shape()[1];
  if (transpose == Transpose::yes) {
    return {{columns, rows}, type_of(x), memory::dims{1, columns}};
  }
  return {{rows, columns}, type_of(x), memory::dims{columns, 1}};
}

void* data_of(TensorView x) {
  return with_type(x.dtype(), [&]<class T>(TypeTag<T>) -> void* { return x.data<T>(); });
}

}  // namespace

bool has_bf16_units() {
  static const bool result = [] {
    switch (dnnl::get_effective_cpu_isa()) {
      case dnnl::cpu_isa::avx512_core_bf16:
      case dnnl::cpu_isa::avx512_core_amx:
        return true;
      default:
        return false;
    }
  }();
  return result;
}

void matmul_bf16(TensorView out, TensorView a, TensorView b, TensorView bias,
                 MatmulOptions options) {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  const memory::desc left = operand(a, options.a), right = operand(b, options.b),
                     result = operand(out, Transpose::no);
  const memory::desc offset =
      bias.count() > 0
          ? memory::desc({1, bias.count()}, type_of(bias), memory::dims{bias.count(), 1})
          : memory::desc();
  dnnl::primitive_attr attributes;
  if (options.output == Output::accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  // Creating one again finds it in oneDNN's cache.
  const dnnl::matmul::desc product = bias.count() > 0
                                         ? dnnl::matmul::desc(left, right, offset, result)
                                         : dnnl::matmul::desc(left, right, result);
  const dnnl::matmul primitive({product, attributes, engine});
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, memory(left, engine, data_of(a))},
      {DNNL_ARG_WEIGHTS, memory(right, engine, data_of(b))},
      {DNNL_ARG_DST, memory(result, engine, data_of(out))}};
  if (bias.count() > 0) {
    arguments.insert({DNNL_ARG_BIAS, memory(offset, engine, data_of(bias))});
  }
  primitive.execute(stream, arguments);
  stream.wait();
}

}  // namespace llmtrain::ops::cpu
