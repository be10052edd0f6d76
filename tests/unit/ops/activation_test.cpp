#include "llmtrain/ops/activation.hpp"

#include "ops/fast_exp.hpp"
#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class Activation : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, Activation, testing::ValuesIn(kPrecisions), precision_name);

TEST(FastExp, RelativeErrorOverTheWholeRange) {
  std::vector<float> x, y;
  for (double v = -87.3; v < 88.3; v += 1e-4) x.push_back(static_cast<float>(v));
  for (double v = 1e-9; v < 1; v *= 1.01) {
    x.push_back(static_cast<float>(v));
    x.push_back(static_cast<float>(-v));
  }
  x.push_back(0.0f);
  y.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = cpu::fast_exp(x[i]);
  double worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::fabs(y[i] - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(cpu::fast_exp(0.0f), 1.0f);
}

TEST(FastExp, OutOfRangeAndNan) {
  EXPECT_EQ(cpu::fast_exp(-INFINITY), 0.0f);
  EXPECT_EQ(cpu::fast_exp(-88.0f), 0.0f);
  EXPECT_EQ(cpu::fast_exp(89.0f), INFINITY);
  EXPECT_EQ(cpu::fast_exp(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(cpu::fast_exp(NAN)));
}

Values wide_values(index_t count) { return scaled(random_values(count, 1), 12.0); }

TEST_P(Activation, GeluForward) {
  const Values x = rounded(wide_values(5 * 333));
  const Tensor y = tensor({5, 333});
  gelu_forward(ctx_, y, tensor({5, 333}, x));
  Values expected;
  for (const double v : x) expected.push_back(reference::gelu(v));
  expect_close(y, expected, tolerance());
}

// The tail of small results keeps its relative accuracy: 1 + tanh(u) would cancel. The
// bound is that of exp at u of some tens, whose argument's rounding it multiplies.
TEST_P(Activation, GeluOfNegativeValues) {
  const Values x{-1.0, -2.0, -3.0, -4.0, -5.0};
  const Tensor y = tensor({1, 5});
  gelu_forward(ctx_, y, tensor({1, 5}, x));
  for (int i = 0; i < 5; ++i) {
    const double u = 2 * std::sqrt(2 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    const double exact = x[i] / (1 + std::exp(-u));
    // The smallest are subnormal in fp16, 2^-24 apart.
    const double spacing = GetParam().dtype == Dtype::fp16 ? 0x1p-25 : 0.0;
    EXPECT_NEAR(y.values()[i], exact, 2 * tolerance() * std::fabs(exact) + spacing)
        << x[i];
  }
}

TEST_P(Activation, GeluBackwardAgainstFiniteDifferencesAndInPlace) {
  const Values x = rounded(wide_values(2 * 57)), dy = rounded(random_values(2 * 57, 2));
  Values expected;
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.push_back(
        dy[i] * reference::numerical_gradient(
                    [](const Values& v) { return reference::gelu(v[0]); }, {x[i]})[0]);
  }
  const Tensor dx = tensor({2, 57}), grad = tensor({2, 57}, dy),
               input = tensor({2, 57}, x);
  gelu_backward(ctx_, dx, grad, input);
  expect_close(dx, expected, tolerance());
  gelu_backward(ctx_, grad, grad, input);
  EXPECT_TRUE(same_bits(dx, grad));
}

TEST_P(Activation, SwigluForward) {
  for (const index_t width : {1, 31, 128}) {
    const Values gate_up = rounded(wide_values(3 * 2 * width));
    const Tensor y = tensor({3, width});
    swiglu_forward(ctx_, y, tensor({3, 2 * width}, gate_up));
    expect_close(y, reference::swiglu(gate_up, 3, width), tolerance());
  }
}

TEST_P(Activation, SwigluBackwardAgainstFiniteDifferencesAndInPlace) {
  const index_t width = 21;
  const Values gate_up = rounded(scaled(random_values(3 * 2 * width, 1), 4.0));
  const Tensor dy = random({3, width}, 2), input = tensor({3, 2 * width}, gate_up);
  const Tensor dgate_up = tensor({3, 2 * width});
  swiglu_backward(ctx_, dgate_up, dy, input);
  expect_close(dgate_up,
               reference::numerical_gradient(
                   [&](const Values& v) {
                     return reference::dot(reference::swiglu(v, 3, width), dy.values());
                   },
                   gate_up),
               tolerance());
  swiglu_backward(ctx_, input, dy, input);
  EXPECT_TRUE(same_bits(dgate_up, input));
}

TEST_P(Activation, ErrorsNameTheArgument) {
  const Tensor a = tensor({2, 4}), b = tensor({2, 5});
  expect_error([&] { gelu_forward(ctx_, a, b); }, {"gelu_forward", "y"});
  expect_error([&] { gelu_backward(ctx_, a, b, a); }, {"gelu_backward", "dy"});
  expect_error([&] { gelu_backward(ctx_, b, a, a); }, {"gelu_backward", "dx"});
  expect_error([&] { swiglu_forward(ctx_, a, b); }, {"swiglu_forward", "gate_up"});
  expect_error(
      [&] {
        swiglu_backward(ctx_, b, tensor({2, 2}), a);
      },
      {"swiglu_backward", "dgate_up"});
}

}  // namespace
}  // namespace llmtrain::ops
