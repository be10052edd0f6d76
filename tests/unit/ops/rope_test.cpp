#include "llmtrain/ops/rope.hpp"

#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class Rope : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, Rope, testing::ValuesIn(kPrecisions), precision_name);

TEST_P(Rope, TableIsAccurateAtLargePositions) {
  const Tensor table = floats({5000, 8});
  rope_table(ctx_, table, 10000.0);
  for (const index_t p : {0, 1, 4999}) {
    for (index_t i = 0; i < 4; ++i) {
      const double angle = p * std::pow(10000.0, -2.0 * i / 8);
      EXPECT_NEAR(table.values()[p * 8 + i], std::cos(angle), 6e-8);
      EXPECT_NEAR(table.values()[p * 8 + 4 + i], std::sin(angle), 6e-8);
    }
  }
}

TEST_P(Rope, RotatesTheFirstHeadsAndBack) {
  struct Case {
    RopeShape shape;
    index_t columns;
  };
  for (const auto& [shape, columns] : {Case{{1, 2, 3, 0}, 2},
                                       {{3, 8, 5, 0}, 32},
                                       {{2, 64, 6, 10}, 128},
                                       {{2, 34, 4, 3}, 75}}) {
    const Tensor table = floats({20, shape.head_dim});
    rope_table(ctx_, table, 500.0);
    const Tensor x = random({2 * shape.seq_len, columns}, 1);
    const Values before = x.values();
    rope(ctx_, x, table, shape, RopeDirection::forward);
    expect_close(x, reference::rope(before, columns, 500.0, shape, 1.0), tolerance());
    // The rotation is orthogonal: its transpose, the backward pass, is its inverse.
    rope(ctx_, x, table, shape, RopeDirection::backward);
    expect_close(x, before, 2 * tolerance());
  }
}

TEST_P(Rope, BackwardAgainstFiniteDifferences) {
  const RopeShape shape{2, 6, 3, 1};
  const Tensor table = floats({4, 6});
  rope_table(ctx_, table, 100.0);
  const Tensor dy = random({3, 14}, 1);
  const Values weights = dy.values();
  const Values expected = reference::numerical_gradient(
      [&](const Values& x) {
        return reference::dot(reference::rope(x, 14, 100.0, shape, 1.0), weights);
      },
      random_values(3 * 14, 2));
  rope(ctx_, dy, table, shape, RopeDirection::backward);
  expect_close(dy, expected, tolerance());
}

TEST_P(Rope, ErrorsNameTheArgument) {
  const Tensor x = tensor({4, 16}), table = floats({4, 8}), odd = floats({4, 7});
  const auto call = [&](const Tensor& t, const RopeShape& shape) {
    rope(ctx_, x, t, shape, RopeDirection::forward);
  };
  expect_error([&] { rope_table(ctx_, odd, 1e4); }, {"rope_table", "table"});
  expect_error([&] { rope_table(ctx_, table, 0.0); }, {"theta"});
  expect_error([&] { call(table, {3, 8, 4, 0}); }, {"rope", "x has 16 columns"});
  expect_error([&] { call(table, {1, 7, 4, 0}); }, {"shape.head_dim"});
  expect_error([&] { call(table, {1, 4, 4, 0}); }, {"table"});
  expect_error([&] { call(table, {1, 8, 4, 1}); }, {"table has 4 positions"});
}

}  // namespace
}  // namespace llmtrain::ops
