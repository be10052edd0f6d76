#include "cuda/kernels/cross_entropy.hpp"

#include "kernel_test.hpp"
#include "llmtrain/ops/cross_entropy.hpp"

namespace llmtrain::cuda {
namespace {

constexpr float kScale = 0.25f;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
class CrossEntropyTest : public KernelTest<T> {
 protected:
  // scale * (softmax - onehot), 0 in padding and ignored rows.
  static Values gradient(const Values& logits, const Labels& labels, index_t columns,
                         index_t vocabulary) {
    Values result(logits.size(), 0.0);
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (labels[t] == ops::kIgnoredLabel) continue;
      const double* const row = logits.data() + t * columns;
      double sum = 0.0;
      const double largest = *std::max_element(row, row + vocabulary);
      for (index_t c = 0; c < vocabulary; ++c) sum += std::exp(row[c] - largest);
      for (index_t c = 0; c < vocabulary; ++c) {
        result[t * columns + c] =
            kScale * (std::exp(row[c] - largest) / sum - (labels[t] == c ? 1.0 : 0.0));
      }
    }
    return result;
  }

  // Both forms; padding columns hold NaN, which must not be read for anything.
  void expect_right(std::vector<T> logits, const Labels& labels, int columns,
                    int vocabulary) {
    SCOPED_TRACE("columns " + std::to_string(columns));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (static_cast<int>(i) % columns >= vocabulary)
        logits[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    }
    const Values values = widened(logits);
    const Values losses = reference::cross_entropy(values, labels, columns, vocabulary);
    const DeviceArray<T> on_device(logits);
    const DeviceArray<std::int32_t> on_labels(labels);
    for (const bool with_gradient : {false, true}) {
      const DeviceArray<float> result(labels.size());
      const CrossEntropy<T> arguments{
          result.data(),    on_device.data(),
          on_labels.data(), static_cast<index_t>(labels.size()),
          columns,          vocabulary};
      check(with_gradient
                ? cross_entropy_with_gradient<T>(arguments, kScale, this->stream_)
                : cross_entropy<T>(arguments, this->stream_));
      expect_close(result, losses, kSumTolerance, "losses");
    }
    expect_close(on_device, gradient(values, labels, columns, vocabulary),
                 kSumTolerance + kRounding<T>, "gradient");
  }

  static std::vector<T> random_logits(index_t count) {
    Values values = widened(random<T>(count, 5));
    for (double& value : values) value *= 8.0;
    return rounded<T>(values);
  }
};
TYPED_TEST_SUITE(CrossEntropyTest, ElementTypes);

TYPED_TEST(CrossEntropyTest, AgreesWithTheReferenceInEveryOrder) {
  const Labels labels{0, 63, ops::kIgnoredLabel, 17};
  for (const auto& order : emulation::kOrders) {
    SCOPED_TRACE(order.name);
    this->use(order);
    this->expect_right(this->random_logits(4 * 64), labels, 64, 64);
    this->expect_right(this->random_logits(4 * 136), labels, 136, 130);
    this->expect_right(this->random_logits(4 * 67), labels, 67, 64);  // not by 16 bytes
  }
}

TYPED_TEST(CrossEntropyTest, LongRowsTakeSeveralTurns) {
  const Labels labels{4999, ops::kIgnoredLabel, 0};
  this->expect_right(this->random_logits(3 * 5056), labels, 5056, 5000);
  this->expect_right(this->random_logits(3 * 5001), labels, 5001, 5000);
}

TYPED_TEST(CrossEntropyTest, LargeLogitsAndMinusInfinityAreFine) {
  Values logits(3 * 32, -kInfinity);
  logits[0] = 30000.0;  // alone
  for (int c = 0; c < 32; ++c) logits[32 + c] = 30000.0 + c % 2 * 64;
  for (int c = 20; c < 32; ++c) logits[64 + c] = -30000.0;
  this->expect_right(rounded<TypeParam>(logits), {0, 1, 25}, 32, 32);
}

TYPED_TEST(CrossEntropyTest, NanInTheVocabularyIsNotHidden) {
  Values logits(32, 1.0);
  logits[9] = std::numeric_limits<double>::quiet_NaN();
  const DeviceArray<TypeParam> on_device(rounded<TypeParam>(logits));
  const DeviceArray<std::int32_t> labels(Labels{3});
  const DeviceArray<float> losses(1);
  check(cross_entropy<TypeParam>(
      {losses.data(), on_device.data(), labels.data(), 1, 32, 32}, this->stream_));
  EXPECT_TRUE(std::isnan(losses.values()[0]));
}

}  // namespace
}  // namespace llmtrain::cuda
