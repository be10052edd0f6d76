#include "llmtrain/ops/matmul.hpp"

#include "ops/cpu_kernels.hpp"
#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class Matmul : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, Matmul, testing::ValuesIn(kPrecisions), precision_name);

TEST_P(Matmul, EveryTransposeOverwritesAndAccumulates) {
  struct Size {
    index_t m, n, k;
  };
  for (const auto& [m, n, k] : {Size{1, 1, 1}, {3, 5, 7}, {64, 48, 33}, {130, 17, 96}}) {
    for (const bool at : {false, true}) {
      for (const bool bt : {false, true}) {
        const Tensor a = random(at ? Shape{k, m} : Shape{m, k}, 1);
        const Tensor b = random(bt ? Shape{n, k} : Shape{k, n}, 2);
        const Values expected =
            reference::matmul(a.values(), b.values(), {m, n, k, at, bt});
        const Values before = rounded(random_values(m * n, 3));
        const Tensor out = tensor({m, n}, before);
        MatmulOptions options{.a = at ? Transpose::yes : Transpose::no,
                              .b = bt ? Transpose::yes : Transpose::no};
        matmul(ctx_, out, a, b, options);
        expect_close(out, expected, tolerance(), "overwrite");
        options.output = Output::accumulate;
        const Tensor sum = tensor({m, n}, before);
        matmul(ctx_, sum, a, b, options);
        expect_close(sum, sum_of(expected, before), tolerance(), "accumulate");
      }
    }
  }
}

TEST_P(Matmul, OverwritesNan) {
  const Tensor a = random({4, 3}, 1), b = random({3, 5}, 2);
  const Tensor out = tensor({4, 5}, Values(20, NAN));
  matmul(ctx_, out, a, b);
  expect_close(out, reference::matmul(a.values(), b.values(), {4, 5, 3}), tolerance());
}

TEST_P(Matmul, EmptySizes) {
  const Tensor out = random({2, 3}, 1);
  matmul(ctx_, out, tensor({2, 0}), tensor({0, 3}), {.output = Output::accumulate});
  EXPECT_EQ(out.values(), rounded(random_values(6, 1)));
  matmul(ctx_, out, tensor({2, 0}), tensor({0, 3}));
  EXPECT_EQ(out.values(), Values(6, 0.0));
  matmul(ctx_, tensor({0, 3}), tensor({0, 2}), random({2, 3}, 2));
}

TEST_P(Matmul, LinearWithAndWithoutBias) {
  for (const Shape& weight_shape : {Shape{7, 5}, Shape{192, 64}, Shape{33, 130}}) {
    for (const index_t tokens : {1, 70}) {
      const index_t out = weight_shape[0], in = weight_shape[1];
      const Tensor x = random({tokens, in}, 1), weight = random(weight_shape, 2);
      const Tensor bias = random({out}, 3), y = tensor({tokens, out});
      Values expected =
          reference::matmul(x.values(), weight.values(), {tokens, out, in, false, true});
      linear_forward(ctx_, y, x, weight, {});
      expect_close(y, expected, tolerance(), "without bias");
      for (index_t i = 0; i < tokens * out; ++i) expected[i] += bias.values()[i % out];
      linear_forward(ctx_, y, x, weight, bias);
      expect_close(y, expected, tolerance(), "with bias");
    }
  }
}

TEST_P(Matmul, LinearBackwardAgainstFiniteDifferences) {
  const index_t tokens = 6, in = 5, out = 7;
  const Tensor x = random({tokens, in}, 1), weight = random({out, in}, 2);
  const Tensor dy = random({tokens, out}, 3);
  const Tensor dx = random({tokens, in}, 4), dweight = random({out, in}, 5),
               dbias = random({out}, 6);
  const Values dweight_before = dweight.values(), dbias_before = dbias.values();
  const auto loss = [&](const Values& xs, const Values& ws, const Values& bs) {
    Values y = reference::matmul(xs, ws, {tokens, out, in, false, true});
    for (index_t i = 0; i < tokens * out; ++i) y[i] += bs[i % out];
    return reference::dot(y, dy.values());
  };
  linear_backward(ctx_, {dx, dweight, dbias}, dy, x, weight);
  const Values xs = x.values(), ws = weight.values(), bs(out, 0.0);
  using reference::numerical_gradient;
  expect_close(dx,
               numerical_gradient([&](const Values& v) { return loss(v, ws, bs); }, xs),
               tolerance(), "dx");
  expect_close(
      dweight,
      sum_of(numerical_gradient([&](const Values& v) { return loss(xs, v, bs); }, ws),
             dweight_before),
      tolerance(), "dweight");
  expect_close(
      dbias,
      sum_of(numerical_gradient([&](const Values& v) { return loss(xs, ws, v); }, bs),
             dbias_before),
      tolerance(), "dbias");
}

TEST_P(Matmul, BiasGradientOfManyTokens) {
  for (const index_t out : {1, 100, 300}) {
    const index_t tokens = 1003;
    const Tensor dy = random({tokens, out}, 1), x = random({tokens, 2}, 2);
    const Tensor weight = random({out, 2}, 3), dweight = tensor({out, 2});
    const Tensor dbias = random({out}, 4);
    Values expected = dbias.values();
    const Values grads = dy.values();
    for (index_t i = 0; i < tokens * out; ++i) expected[i % out] += grads[i];
    linear_backward(ctx_, {{}, dweight, dbias}, dy, x, weight);
    expect_close(dbias, expected, tolerance());
  }
}

TEST_P(Matmul, TwiceIsBitwiseEqual) {
  const Tensor x = random({300, 130}, 1), weight = random({70, 130}, 2);
  const Tensor dy = random({300, 70}, 3);
  const auto run = [&] {
    const Tensor out = tensor({70, 130});
    matmul(ctx_, out, dy, x, {.a = Transpose::yes});
    return out.values();
  };
  EXPECT_EQ(run(), run());
}

// What CPUs with bf16 units run; on others oneDNN emulates it.
TEST(MatmulBf16, EveryTransposeOutputAndBias) {
  Device device(DeviceKind::cpu);
  const index_t m = 37, n = 48, k = 65;
  for (const Dtype out_dtype : {Dtype::bf16, Dtype::f32}) {
    for (const int mask : {0, 1, 2, 3}) {
      const bool at = mask & 1, bt = mask & 2;
      const Tensor a(device, at ? Shape{k, m} : Shape{m, k}, Dtype::bf16,
                     random_values(m * k, 1));
      const Tensor b(device, bt ? Shape{n, k} : Shape{k, n}, Dtype::bf16,
                     random_values(n * k, 2));
      const Tensor out(device, {m, n}, out_dtype, random_values(m * n, 3));
      const Tensor bias(device, {n}, out_dtype, random_values(n, 4));
      const Values product = reference::matmul(a.values(), b.values(), {m, n, k, at, bt});
      const Values before = out.values();
      MatmulOptions options{.a = at ? Transpose::yes : Transpose::no,
                            .b = bt ? Transpose::yes : Transpose::no,
                            .output = Output::accumulate};
      const double tolerance = out_dtype == Dtype::f32 ? 2e-6 : 0x1p-8;
      cpu::matmul_bf16(out, a, b, {}, options);
      expect_close(out, sum_of(product, before), tolerance, "accumulate");
      options.output = Output::overwrite;
      cpu::matmul_bf16(out, a, b, {}, options);
      expect_close(out, product, tolerance, "overwrite");
      cpu::matmul_bf16(out, a, b, bias, options);
      Values with_bias = product;
      for (index_t i = 0; i < m * n; ++i) with_bias[i] += bias.values()[i % n];
      expect_close(out, with_bias, tolerance, "with bias");
    }
  }
}

TEST_P(Matmul, ErrorsNameTheArgument) {
  const Tensor a = tensor({2, 3}), b = tensor({4, 5}), out = tensor({2, 5});
  expect_error([&] { matmul(ctx_, out, a, b); }, {"matmul", "b", "[4, 5]"});
  expect_error([&] { matmul(ctx_, a, a, tensor({3, 5})); }, {"matmul", "out"});
  expect_error([&] { matmul(ctx_, out, tensor({3}), b); }, {"matmul", "a has shape [3]"});
  expect_error(
      [&] {
        matmul(ctx_, out, integers({2, 3}, Labels(6, 0)), b);
      },
      {"matmul", "a holds i32"});
  expect_error(
      [&] {
        linear_forward(ctx_, out, a, tensor({5, 3}), tensor({4}));
      },
      {"linear_forward", "bias"});
  expect_error(
      [&] {
        linear_backward(ctx_, {a, {}, {}}, out, a, tensor({5, 3}));
      },
      {"linear_backward", "dweight"});
}

}  // namespace
}  // namespace llmtrain::ops
