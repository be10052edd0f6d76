#include "llmtrain/ops/adamw.hpp"

#include "llmtrain/ops/reduce.hpp"
#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class Adamw : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, Adamw, testing::ValuesIn(kPrecisions), precision_name);

constexpr AdamWStep kStep{.learning_rate = 0.01f,
                          .beta1 = 0.9f,
                          .beta2 = 0.95f,
                          .epsilon = 1e-8f,
                          .weight_decay = 0.1f,
                          .gradient_scale = 1.0f,
                          .t = 1};

// Golden values of torch.optim.AdamW in float64 for gradients k * (0.1, -0.2, 0.3).
TEST_P(Adamw, GoldenValues) {
  const double golden[3][3] = {{0.989000001000, -1.988000000500, 0.489500000333},
                               {0.978431142906, -1.976432142106, 0.479430641839},
                               {0.968007613691, -1.965010611676, 0.469506112838}};
  const Tensor weights = floats({3}, {1.0, -2.0, 0.5});
  const Tensor exp_avg = floats({3}), exp_avg_sq = floats({3});
  AdamWStep step = kStep;
  for (int k = 1; k <= 3; ++k) {
    step.t = k;
    adamw(ctx_, weights, {}, exp_avg, exp_avg_sq,
          floats({3}, {0.1 * k, -0.2 * k, 0.3 * k}), step);
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(weights.values()[i], golden[k - 1][i], 1e-6) << "step " << k;
    }
  }
}

// Golden values of torch.nn.utils.clip_grad_norm_: (3, 4), (12) clipped to norm 1.
TEST_P(Adamw, ClippingByTheGradientScale) {
  const Tensor gradients = tensor({3}, {3.0, 4.0, 12.0});
  const double norm = std::sqrt(sum_of_powers(ctx_, gradients, 2.0));
  EXPECT_EQ(norm, 13.0);
  const auto coefficient = static_cast<float>(std::min(1.0, 1.0 / (norm + 1e-6)));
  const double golden[3] = {0.23076921301775288, 0.3076922840236705, 0.9230768520710115};
  AdamWStep step = kStep;
  step.beta1 = 0.0f;  // the first moment is the scaled gradient
  step.gradient_scale = coefficient;
  const Tensor exp_avg = floats({3});
  adamw(ctx_, floats({3}), {}, exp_avg, floats({3}), gradients, step);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(exp_avg.values()[i], golden[i], 1e-6);
}

TEST_P(Adamw, AgainstTheFormulaInDouble) {
  const index_t count = 1001;
  const Tensor weights = floats({count}, random_values(count, 1));
  const Tensor exp_avg = floats({count}, random_values(count, 2));
  const Tensor rounded_weights = tensor({count});
  const Tensor gradients = random({count}, 3);
  Values sq = random_values(count, 4);
  for (double& v : sq) v = std::fabs(v);
  const Tensor second = floats({count}, sq);
  AdamWStep step = kStep;
  step.t = 7;
  step.gradient_scale = 0.5f;
  Values p = weights.values(), m = exp_avg.values(), v = sq;
  const Values g = gradients.values();
  for (index_t i = 0; i < count; ++i) {
    const double b1 = step.beta1, b2 = step.beta2, lr = step.learning_rate;
    const double grad = 0.5 * g[i];
    p[i] *= 1 - lr * step.weight_decay;
    m[i] = b1 * m[i] + (1 - b1) * grad;
    v[i] = b2 * v[i] + (1 - b2) * grad * grad;
    const double denominator =
        std::sqrt(v[i]) / std::sqrt(1 - std::pow(b2, 7)) + step.epsilon;
    p[i] -= lr / (1 - std::pow(b1, 7)) * m[i] / denominator;
  }
  adamw(ctx_, weights, rounded_weights, exp_avg, second, gradients, step);
  constexpr double kTolerance = 2e-6;  // of f32, whatever the gradients are in
  expect_close(weights, p, kTolerance, "weights");
  expect_close(exp_avg, m, kTolerance, "exp_avg");
  expect_close(second, v, kTolerance, "exp_avg_sq");
  EXPECT_EQ(rounded_weights.values(), rounded(weights.values()));
}

TEST_P(Adamw, CutsDoNotChangeABit) {
  const index_t count = 4099;
  const Values p = random_values(count, 1), m = random_values(count, 2);
  Values v = random_values(count, 3);
  for (double& value : v) value = std::fabs(value);
  const Tensor gradients = random({count}, 4);
  const auto run = [&](const std::vector<index_t>& cuts) {
    const Tensor weights = floats({count}, p), first = floats({count}, m),
                 second = floats({count}, v), low = tensor({count});
    index_t begin = 0;
    for (const index_t end : cuts) {
      const auto piece = [&](const Tensor& t) {
        return t.view().flat(begin, end - begin);
      };
      adamw(ctx_, piece(weights), piece(low), piece(first), piece(second),
            piece(gradients), kStep);
      begin = end;
    }
    Values all = weights.values();
    for (const Tensor* t : {&first, &second, &low}) {
      const Values more = t->values();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  const Values whole = run({count});
  EXPECT_EQ(whole, run({1, 2, 3, 64, 67, 1000, 1024, count}));
  std::vector<index_t> singles;
  for (index_t i = 1; i <= count; ++i) singles.push_back(i);
  EXPECT_EQ(whole, run(singles));
}

TEST_P(Adamw, ErrorsNameTheArgument) {
  const Tensor a = floats({4}), b = floats({3});
  expect_error([&] { adamw(ctx_, a, {}, b, a, a, kStep); }, {"adamw", "exp_avg"});
  expect_error([&] { adamw(ctx_, a, {}, a, b, a, kStep); }, {"exp_avg_sq"});
  expect_error([&] { adamw(ctx_, a, {}, a, a, b, kStep); }, {"gradients"});
  expect_error([&] { adamw(ctx_, a, b, a, a, a, kStep); }, {"rounded"});
  AdamWStep zeroth = kStep;
  zeroth.t = 0;
  expect_error([&] { adamw(ctx_, a, {}, a, a, a, zeroth); }, {"step.t"});
}

}  // namespace
}  // namespace llmtrain::ops
