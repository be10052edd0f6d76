#include "llmtrain/layers/parameter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace llmtrain {
namespace {

ParameterSpec row(const std::string& name, Shape shape, bool decayed,
                  Initializer initializer = {}) {
  return {.name = name, .shape = shape, .initializer = initializer, .decayed = decayed};
}

TEST(ParameterSet, DecayedRowsComeFirstAndGroupsStayAdjacent) {
  ParameterSet set("test");
  const Parameter bias = set.declare({row("bias", {5}, false)});
  const Parameter qkv = set.declare(
      {row("q", {4, 3}, true), row("k", {2, 3}, true), row("v", {2, 3}, true)});
  const Parameter other = set.declare({row("other", {2, 2}, true)});
  set.seal();

  ASSERT_EQ(set.rows().size(), 5u);
  EXPECT_EQ(set.rows()[0].spec.name, "q");
  EXPECT_EQ(set.rows()[1].offset, 12);  // k follows q without a gap
  EXPECT_EQ(set.rows()[2].offset, 18);
  EXPECT_EQ(set.rows()[3].offset, 32);  // a group starts on 16 elements
  EXPECT_EQ(set.rows()[4].spec.name, "bias");
  EXPECT_EQ(set.decayed_size(), 36);
  EXPECT_EQ(set.size(), 48 + 5);
  EXPECT_EQ(set.parameter_count(), 12 + 6 + 6 + 4 + 5);

  std::vector<float> flat(static_cast<std::size_t>(set.size()));
  std::iota(flat.begin(), flat.end(), 0.0f);
  set.bind_weights({flat.data(), Dtype::f32, Shape{set.size()}});
  EXPECT_EQ(qkv.weight().shape(), (Shape{8, 3}));
  EXPECT_EQ(qkv.weight().data<float>()[23], 23.0f);
  EXPECT_EQ(other.weight().data<float>()[0], 32.0f);
  EXPECT_EQ(bias.weight().data<float>()[0], 48.0f);
  EXPECT_THROW(bias.gradient(), Error);  // never bound
  set.bind_weights({});
  EXPECT_THROW(bias.weight(), Error);
}

TEST(ParameterSet, RowsThatFormNoMatrixAreRefused) {
  ParameterSet set("test");
  EXPECT_THROW(set.declare({row("a", {2, 3}, true), row("b", {2, 4}, true)}), Error);
  EXPECT_THROW(set.declare({row("a", {2, 3}, true), row("b", {2, 3}, false)}), Error);
}

// Initial values are a function of the row's name and the element, not of the cut.
TEST(ParameterSet, InitialValuesDoNotDependOnTheCut) {
  ParameterSet set("test");
  set.declare({row("w", {37, 11}, true, {Initializer::Kind::normal, 0.02f})});
  set.declare({row("ones", {7}, false, {Initializer::Kind::ones})});
  set.seal();
  const auto values = [&](index_t begin, index_t count, std::uint64_t seed) {
    std::vector<float> out(static_cast<std::size_t>(count), -1.0f);
    set.initialize({out.data(), Dtype::f32, Shape{count}}, begin, seed);
    return out;
  };
  const index_t padded = set.size() + 20;
  const std::vector<float> whole = values(0, padded, 1);
  for (index_t begin = 0; begin < padded; begin += 64) {
    const index_t count = std::min<index_t>(64, padded - begin);
    const std::vector<float> part = values(begin, count, 1);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
  }
  EXPECT_EQ(whole[static_cast<std::size_t>(padded - 1)], 0.0f);  // padding
  EXPECT_EQ(whole[static_cast<std::size_t>(set.rows()[1].offset)], 1.0f);
  EXPECT_NE(values(0, padded, 2), whole);
}

TEST(ParameterSet, PaddingRowsAreZeroAndNotCounted) {
  ParameterSet set("test");
  ParameterSpec spec = row("table", {5, 2}, true, {Initializer::Kind::normal, 1.0f});
  spec.padded_rows = 8;
  set.declare({spec});
  set.seal();
  EXPECT_EQ(set.size(), 16);
  EXPECT_EQ(set.parameter_count(), 10);
  std::vector<float> out(16);
  set.initialize({out.data(), Dtype::f32, Shape{16}}, 0, 1);
  EXPECT_NE(out[9], 0.0f);
  for (std::size_t i = 10; i < 16; ++i) EXPECT_EQ(out[i], 0.0f);
}

// 200,000 draws: the mean is within 5 standard errors, the deviation within 1 %.
TEST(ParameterSet, MomentsOfTheInitialisers) {
  ParameterSet set("test");
  set.declare({row("normal", {200, 1000}, true, {Initializer::Kind::normal, 0.02f})});
  set.declare(
      {row("kaiming", {200, 1000}, true, {Initializer::Kind::kaiming_uniform, 1.0f})});
  set.seal();
  std::vector<float> out(static_cast<std::size_t>(set.size()));
  set.initialize({out.data(), Dtype::f32, Shape{set.size()}}, 0, 3);
  const double bound = std::sqrt(3.0 / 1000);
  const double expected[] = {0.02, bound / std::sqrt(3.0)};
  for (std::size_t which = 0; which < 2; ++which) {
    double sum = 0, squares = 0, largest = 0;
    for (std::size_t i = 0; i < 200000; ++i) {
      const double x = out[which * 200000 + i];
      sum += x;
      squares += x * x;
      largest = std::max(largest, std::abs(x));
    }
    EXPECT_NEAR(sum / 200000, 0, 5 * expected[which] / std::sqrt(200000.0));
    EXPECT_NEAR(std::sqrt(squares / 200000), expected[which], 0.01 * expected[which]);
    if (which == 1) {
      EXPECT_LE(largest, bound);
    }
  }
}

}  // namespace
}  // namespace llmtrain
