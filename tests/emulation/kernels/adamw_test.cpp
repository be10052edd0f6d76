#include "cuda/kernels/adamw.hpp"

#include "kernel_test.hpp"

namespace llmtrain::cuda {
namespace {

constexpr ops::AdamWStep kStep{.learning_rate = 0.01f,
                               .beta1 = 0.9f,
                               .beta2 = 0.95f,
                               .epsilon = 1e-8f,
                               .weight_decay = 0.1f,
                               .gradient_scale = 0.5f,
                               .t = 7};

template <class W, class G>
struct Pair {
  using Weight = W;
  using Gradient = G;
};
using Pairs =
    testing::Types<Pair<float, float>, Pair<float, __nv_bfloat16>, Pair<float, __half>,
                   Pair<__nv_bfloat16, __nv_bfloat16>, Pair<__nv_bfloat16, float>,
                   Pair<__half, __half>, Pair<__half, float>>;

template <class Types>
class AdamW : public KernelTest<Types> {
 protected:
  using W = typename Types::Weight;
  using G = typename Types::Gradient;
  static constexpr bool kWritesWeights = sizeof(W) < sizeof(float);

  // Values that depend on the size only.
  struct State {
    explicit State(index_t size)
        : count(size),
          master(random<float>(size, 1)),
          exp_avg(random<float>(size, 2)),
          exp_avg_sq(squares(size)),
          gradient(random<G>(size, 3)),
          weight(std::vector<W>(static_cast<std::size_t>(size), W(0.5f))) {}
    static std::vector<float> squares(index_t size) {
      auto values = random<float>(size, 4);
      for (float& value : values) value *= value;
      return values;
    }
    AdamWRange<W, G> range(index_t begin, index_t end) const {
      return {master.data() + begin,
              exp_avg.data() + begin,
              exp_avg_sq.data() + begin,
              gradient.data() + begin,
              kWritesWeights ? weight.data() + begin : nullptr,
              end - begin};
    }
    index_t count;
    DeviceArray<float> master, exp_avg, exp_avg_sq;
    DeviceArray<G> gradient;
    DeviceArray<W> weight;
  };

  void step(const std::vector<AdamWRange<W, G>>& ranges) {
    check(adamw<W, G>(ranges, kStep, this->stream_));
  }

  // The CPU's order of operations (this file is compiled without contraction).
  static void expect_exact(const State& state, index_t begin, index_t end) {
    const State before(state.count);
    auto master = before.master.values(), first = before.exp_avg.values();
    auto second = before.exp_avg_sq.values();
    const auto gradient = before.gradient.values();
    const double lr = kStep.learning_rate, beta1 = kStep.beta1, beta2 = kStep.beta2;
    const auto keep = static_cast<float>(1 - lr * kStep.weight_decay);
    const auto new1 = static_cast<float>(1 - beta1), new2 = static_cast<float>(1 - beta2);
    const auto size = static_cast<float>(lr / (1 - std::pow(beta1, kStep.t)));
    const auto unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, kStep.t)));
    std::vector<W> weight = before.weight.values();
    for (index_t i = begin; i < end; ++i) {
      const float g = kStep.gradient_scale * static_cast<float>(gradient[i]);
      first[i] = kStep.beta1 * first[i] + new1 * g;
      second[i] = kStep.beta2 * second[i] + new2 * (g * g);
      master[i] = keep * master[i] -
                  size * first[i] / (std::sqrt(second[i]) * unbias + kStep.epsilon);
      if (kWritesWeights) weight[i] = static_cast<W>(master[i]);
    }
    EXPECT_EQ(state.master.values(), master);
    EXPECT_EQ(state.exp_avg.values(), first);
    EXPECT_EQ(state.exp_avg_sq.values(), second);
    EXPECT_EQ(widened(state.weight.values()), widened(weight));
  }
};
TYPED_TEST_SUITE(AdamW, Pairs);

TYPED_TEST(AdamW, HasTheBitsOfTheCpuInEveryOrder) {
  for (const auto& order : emulation::kOrders) {
    SCOPED_TRACE(order.name);
    this->use(order);
    const typename TestFixture::State state(2500);
    this->step({state.range(0, 2500)});
    this->expect_exact(state, 0, 2500);
  }
}

TYPED_TEST(AdamW, TouchesTheRangeOnly) {
  for (const index_t begin : {0, 1, 7, 8}) {
    for (const index_t end : {8, 9, 64, 100}) {
      const typename TestFixture::State state(120);
      this->step({state.range(begin, end)});
      this->expect_exact(state, begin, end);
    }
  }
}

TYPED_TEST(AdamW, ManyRangesGiveTheSameAsOne) {
  const typename TestFixture::State state(3000);
  std::vector<AdamWRange<typename TestFixture::W, typename TestFixture::G>> ranges;
  index_t begin = 0;
  for (index_t i = 0; i < 70; ++i) {  // more than one launch takes; some are empty
    const index_t end = begin + i % 5 * 17;
    ranges.push_back(state.range(begin, end));
    begin = end;
  }
  this->step(ranges);
  this->expect_exact(state, 0, begin);
}

TYPED_TEST(AdamW, PointersThatNeverReachABoundaryTogetherAreFine) {
  const typename TestFixture::State state(300);
  auto range = state.range(0, 300);
  const auto gradient = state.gradient.values();
  std::vector<typename TestFixture::G> shifted(303);
  std::copy(gradient.begin(), gradient.end(), shifted.begin() + 3);
  const DeviceArray<typename TestFixture::G> on_device(shifted);
  range.gradient = on_device.data() + 3;
  this->step({range});
  this->expect_exact(state, 0, 300);
}

TYPED_TEST(AdamW, NoRanges) { this->step({}); }

}  // namespace
}  // namespace llmtrain::cuda
