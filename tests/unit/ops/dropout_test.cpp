#include "llmtrain/ops/dropout.hpp"

#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class DropoutOp : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, DropoutOp, testing::ValuesIn(kPrecisions), precision_name);

constexpr PhiloxKey kKey{11, 22};

TEST_P(DropoutOp, DropsTheElementsOfTheDefinition) {
  const std::vector<std::uint32_t> positions{7, 1u << 31, 3};
  for (const index_t width : {1, 3, 64, 257, 600}) {
    for (const float probability : {0.1f, 0.5f, 0.97f}) {
      const Dropout options{probability, kKey, 5, positions};
      const Tensor x = random({6, width}, 1), y = tensor({6, width});
      dropout(ctx_, y, x, options);
      expect_close(y, reference::dropout(x.values(), options), tolerance());
      const Tensor residual = random({6, width}, 2), sum = tensor({6, width});
      add_dropout(ctx_, sum, residual, x, options);
      expect_close(sum,
                   sum_of(reference::dropout(x.values(), options), residual.values()),
                   tolerance());
    }
  }
}

// The number dropped is binomial; five standard deviations fail once in two million keys.
TEST_P(DropoutOp, DropsTheStatedShareAndKeepsTheMean) {
  const std::vector<std::uint32_t> positions{0, 1, 2, 3};
  const double count = 400 * 1000.0, p = 0.3f;
  const Dropout options{0.3f, kKey, 0, positions};
  const Tensor x = tensor({400, 1000}, Values(400 * 1000, 1.0)), y = tensor({400, 1000});
  dropout(ctx_, y, x, options);
  const Values values = y.values();
  const auto dropped = static_cast<double>(std::count(values.begin(), values.end(), 0.0));
  EXPECT_NEAR(dropped, p * count, 5 * std::sqrt(count * p * (1 - p)));
  const double kept = rounded({1.0f / (1.0f - 0.3f)})[0];
  EXPECT_TRUE(std::all_of(values.begin(), values.end(),
                          [kept](double v) { return v == 0.0 || v == kept; }));
}

TEST_P(DropoutOp, HalvesOfABatchAreTheWhole) {
  const std::vector<std::uint32_t> positions{2, 4, 6, 8};
  const std::span<const std::uint32_t> all(positions);
  const index_t rows = 4 * 3, width = 37;
  const Tensor x = random({rows, width}, 1), whole = tensor({rows, width});
  const Tensor parts = tensor({rows, width});
  dropout(ctx_, whole, x, {0.4f, kKey, 9, all});
  for (const index_t half : {0, 1}) {
    const TensorView in = x.view().rows(half * rows / 2, rows / 2);
    dropout(ctx_, parts.view().rows(half * rows / 2, rows / 2), in,
            {0.4f, kKey, 9, all.subspan(half * 2, 2)});
  }
  EXPECT_TRUE(same_bits(whole, parts));
}

TEST_P(DropoutOp, KeyStepAndPositionChangeTheMask) {
  const std::vector<std::uint32_t> one{1}, two{2};
  const Tensor x = tensor({8, 64}, Values(512, 1.0));
  const auto mask = [&](const Dropout& options) {
    const Tensor y = tensor({8, 64});
    dropout(ctx_, y, x, options);
    return y.values();
  };
  const Values base = mask({0.5f, kKey, 1, one});
  EXPECT_EQ(base, mask({0.5f, kKey, 1, one}));
  EXPECT_NE(base, mask({0.5f, {12, 22}, 1, one}));
  EXPECT_NE(base, mask({0.5f, kKey, 2, one}));
  EXPECT_NE(base, mask({0.5f, kKey, 1, two}));
}

TEST_P(DropoutOp, InPlaceAndBackwardUseTheSameMask) {
  const std::vector<std::uint32_t> positions{1};
  const Dropout options{0.5f, kKey, 1, positions};
  const Tensor x = tensor({5, 77}, Values(5 * 77, 1.0)), y = tensor({5, 77});
  dropout(ctx_, y, x, options);
  const Tensor dy = tensor({5, 77}, Values(5 * 77, 1.0));
  dropout(ctx_, dy, dy, options);
  EXPECT_TRUE(same_bits(y, dy));
  const Tensor residual = random({5, 77}, 2), sum = tensor({5, 77});
  add_dropout(ctx_, sum, residual, x, options);
  add_dropout(ctx_, residual, residual, x, options);
  EXPECT_TRUE(same_bits(sum, residual));
}

TEST_P(DropoutOp, OffCopiesOrAdds) {
  const Tensor x = random({5, 7}, 1), y = tensor({5, 7}), residual = random({5, 7}, 2);
  dropout(ctx_, y, x, {});
  EXPECT_TRUE(same_bits(x, y));
  dropout(ctx_, y, y, {});
  EXPECT_TRUE(same_bits(x, y));
  add_dropout(ctx_, y, residual, y, {});
  expect_close(y, sum_of(x.values(), residual.values()), tolerance());
}

TEST_P(DropoutOp, ErrorsNameTheArgument) {
  const std::vector<std::uint32_t> positions{1, 2, 3};
  const Tensor x = tensor({4, 2}), odd = tensor({4, 3});
  expect_error([&] { dropout(ctx_, odd, x, {}); }, {"dropout", "y"});
  expect_error(
      [&] {
        dropout(ctx_, x, x, {1.0f, kKey, 0, positions});
      },
      {"dropout.probability"});
  expect_error(
      [&] {
        dropout(ctx_, x, x, {-0.1f, kKey, 0, positions});
      },
      {"dropout.probability"});
  expect_error(
      [&] {
        dropout(ctx_, x, x, {0.1f, kKey, 0, positions});
      },
      {"dropout.positions"});
  expect_error([&] { dropout(ctx_, x, x, {0.1f, kKey, 0, {}}); }, {"dropout.positions"});
  expect_error([&] { add_dropout(ctx_, x, odd, x, {}); }, {"add_dropout", "residual"});
}

}  // namespace
}  // namespace llmtrain::ops
