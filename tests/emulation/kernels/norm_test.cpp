#include "cuda/kernels/norm.hpp"

#include "kernel_test.hpp"

namespace llmtrain::cuda {
namespace {

using ops::NormKind;
constexpr float kEpsilon = 1e-5f;

template <class T>
class Norm : public KernelTest<T> {
 protected:
  enum class Delta { no, yes };

  void expect_right(NormKind kind, Delta delta_given, index_t tokens, int width) {
    SCOPED_TRACE("width " + std::to_string(width));
    const bool layer = kind == NormKind::layer, adds = delta_given == Delta::yes;
    const auto x = random<T>(tokens * width, 1), delta = random<T>(tokens * width, 2);
    const auto weight = random<T>(width, 3), bias = random<T>(width, 4);
    const DeviceArray<T> on_x(x), on_delta(delta), on_weight(weight), on_bias(bias);
    const DeviceArray<T> y(x.size()), residual(x.size());
    const DeviceArray<float> statistics(2 * static_cast<std::size_t>(tokens));
    check(norm_forward<T>({.y = y.data(),
                           .statistics = statistics.data(),
                           .x = on_x.data(),
                           .delta = adds ? on_delta.data() : nullptr,
                           .residual = adds ? residual.data() : nullptr,
                           .weight = on_weight.data(),
                           .bias = layer ? on_bias.data() : nullptr,
                           .tokens = tokens,
                           .width = width,
                           .epsilon = kEpsilon},
                          this->stream_));
    Values r = widened(x);
    if (adds) {
      for (std::size_t i = 0; i < r.size(); ++i) r[i] += static_cast<float>(delta[i]);
      expect_close(residual, r, kRounding<T>, "residual");
      r = widened(residual.values());
    }
    const auto expected = reference::norm(kind, kEpsilon, r, widened(weight),
                                          layer ? widened(bias) : Values());
    expect_close(y, expected.y, kSumTolerance + kRounding<T>, "y");
    expect_close(statistics, expected.statistics, kSumTolerance, "statistics");
  }

  void expect_all_right(index_t tokens, int width) {
    for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
      for (const Delta delta : {Delta::no, Delta::yes})
        expect_right(kind, delta, tokens, width);
    }
  }
};
TYPED_TEST_SUITE(Norm, ElementTypes);

TYPED_TEST(Norm, AgreesWithTheReferenceInEveryOrder) {
  for (const auto& order : emulation::kOrders) {
    SCOPED_TRACE(order.name);
    this->use(order);
    this->expect_all_right(3, 96);
    this->expect_all_right(2, 77);  // rows that 16-byte accesses do not divide
  }
}

TYPED_TEST(Norm, OneAndNoTokens) {
  this->expect_all_right(1, 8);
  this->expect_all_right(0, 8);
}

TYPED_TEST(Norm, LongRowsTakeTwoAndFourPacksAThread) {
  constexpr int kPackOfT = 16 / sizeof(TypeParam);
  for (const int packs : {255, 257, 513, 1025, 4096})
    this->expect_all_right(2, packs * kPackOfT);
  this->expect_all_right(2, 4095);
}

TYPED_TEST(Norm, RowsThatAreTooWideAreRefused) {
  const auto result = [](int width) {
    NormForward<TypeParam> arguments{};
    arguments.tokens = 1;
    arguments.width = width;
    return norm_forward(arguments, nullptr);
  };
  EXPECT_EQ(result(4097), cudaErrorInvalidValue);
  EXPECT_EQ(result(65536 / static_cast<int>(sizeof(TypeParam)) + 16),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace llmtrain::cuda
