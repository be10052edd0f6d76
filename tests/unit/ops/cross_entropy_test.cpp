#include "llmtrain/ops/cross_entropy.hpp"

#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class CrossEntropy : public OpTest {
 protected:
  // Labels over the vocabulary with every fourth ignored.
  static Labels some_labels(index_t tokens, index_t vocabulary) {
    Labels labels;
    for (index_t t = 0; t < tokens; ++t) {
      labels.push_back(t % 4 == 3 ? kIgnoredLabel
                                  : static_cast<std::int32_t>((t * 37 + 5) % vocabulary));
    }
    return labels;
  }
};
INSTANTIATE_TEST_SUITE_P(, CrossEntropy, testing::ValuesIn(kPrecisions), precision_name);

TEST_P(CrossEntropy, LossesAndGradientAgainstFiniteDifferences) {
  struct Size {
    index_t tokens, columns, vocabulary;
  };
  for (const auto& [tokens, columns, vocabulary] :
       {Size{1, 1, 1}, {5, 11, 11}, {6, 64, 50}, {4, 130, 97}}) {
    const float scale = 0.125f;
    const Labels labels = some_labels(tokens, vocabulary);
    const Values values = rounded(scaled(random_values(tokens * columns, 1), 6.0));
    const Tensor logits = tensor({tokens, columns}, values), losses = floats({tokens});
    const Tensor targets = integers({tokens}, labels);
    const Values expected = reference::cross_entropy(values, labels, columns, vocabulary);
    cross_entropy(ctx_, losses, logits, targets, vocabulary);
    expect_close(losses, expected, tolerance(), "losses");
    EXPECT_EQ(logits.values(), values);
    const Values alone = losses.values();
    cross_entropy_with_gradient(ctx_, losses, logits, targets, vocabulary, scale);
    EXPECT_EQ(losses.values(), alone);
    // Of the sum of losses; 1e-9 is the finite differences' own error.
    const Values gradient = reference::numerical_gradient(
        [&](const Values& v) {
          const Values all = reference::cross_entropy(v, labels, columns, vocabulary);
          return scale * reference::dot(all, Values(all.size(), 1.0));
        },
        values);
    const Values got = logits.values();
    for (index_t i = 0; i < tokens * columns; ++i) {
      ASSERT_NEAR(got[i], gradient[i], tolerance() * scale + 1e-9) << i;
      if (i % columns >= vocabulary || labels[i / columns] == kIgnoredLabel) {
        ASSERT_EQ(got[i], 0.0) << i;
      }
    }
  }
}

// A sum of 50257 exponentials in plain f32 would lose digits.
TEST_P(CrossEntropy, LargeVocabulary) {
  const index_t columns = 50304, vocabulary = 50257;
  const Values values = rounded(scaled(random_values(2 * columns, 1), 3.0));
  const Tensor losses = floats({2});
  cross_entropy(ctx_, losses, tensor({2, columns}, values),
                integers({2}, Labels{1, 50256}), vocabulary);
  expect_close(losses, reference::cross_entropy(values, {1, 50256}, columns, vocabulary),
               tolerance());
}

TEST_P(CrossEntropy, PaddingTakesNoPartWhateverItHolds) {
  const Values values{1.0, 2.0, 3.0, NAN, 6e4};
  const Tensor logits = tensor({1, 5}, values), losses = floats({1});
  cross_entropy_with_gradient(ctx_, losses, logits, integers({1}, Labels{0}), 3, 1.0f);
  expect_close(losses, reference::cross_entropy(values, {0}, 5, 3), tolerance());
  EXPECT_EQ(logits.values()[3], 0.0);
  EXPECT_EQ(logits.values()[4], 0.0);
}

TEST_P(CrossEntropy, LargeLogitsStayFiniteAndNanPropagates) {
  const Tensor losses = floats({2});
  // 8192 is a value of every dtype.
  const Tensor logits = tensor({2, 3}, {8192.0, -8192.0, 0.0, 0.0, NAN, 1.0});
  cross_entropy(ctx_, losses, logits, integers({2}, Labels{1, 0}), 3);
  EXPECT_EQ(losses.values()[0], 16384.0);
  EXPECT_TRUE(std::isnan(losses.values()[1]));
}

TEST_P(CrossEntropy, ErrorsNameTheArgument) {
  const Tensor losses = floats({2}), logits = tensor({2, 3});
  const Tensor labels = integers({2}, Labels{0, 1});
  const auto call = [&](const Tensor& a, const Tensor& b, const Tensor& c, index_t v) {
    cross_entropy_with_gradient(ctx_, a, b, c, v, 1.0f);
  };
  expect_error([&] { call(logits, logits, labels, 3); },
               {"cross_entropy_with_gradient", "losses"});
  expect_error([&] { call(losses, losses, labels, 3); }, {"logits"});
  expect_error([&] { call(losses, logits, losses, 3); }, {"labels"});
  expect_error([&] { call(losses, logits, labels, 4); }, {"vocabulary"});
  expect_error([&] { cross_entropy(ctx_, losses, logits, labels, 0); },
               {"cross_entropy", "vocabulary"});
}

}  // namespace
}  // namespace llmtrain::ops
