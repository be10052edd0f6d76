#include "llmtrain/ops/norm.hpp"

#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

constexpr float kEpsilon = 1e-5f;

class Norm : public OpTest {
 protected:
  // Bias, or nothing for rms.
  Tensor bias(NormKind kind, index_t width, std::uint32_t salt) {
    return kind == NormKind::layer ? random({width}, salt) : Tensor();
  }
  static Values values_or_none(const Tensor& t) {
    return t.view().count() == 0 ? Values() : t.values();
  }
};
INSTANTIATE_TEST_SUITE_P(, Norm, testing::ValuesIn(kPrecisions), precision_name);

constexpr NormKind kKinds[] = {NormKind::layer, NormKind::rms};

TEST_P(Norm, Forward) {
  for (const NormKind kind : kKinds) {
    for (const index_t width : {1, 7, 32, 384, 770}) {
      const index_t tokens = 5;
      const Tensor x = random({tokens, width}, 1), weight = random({width}, 2);
      const Tensor shift = bias(kind, width, 3);
      const Tensor y = tensor({tokens, width}), statistics = floats({tokens, 2});
      norm_forward(ctx_, kind, kEpsilon, y, statistics, {.x = x}, weight, shift);
      if (width == 1 && kind == NormKind::layer) {  // 0 * rstd: only the bias remains
        expect_close(y, Values(tokens, shift.values()[0]), tolerance());
        continue;
      }
      const auto expected = reference::norm(kind, kEpsilon, x.values(), weight.values(),
                                            values_or_none(shift));
      expect_close(y, expected.y, tolerance(), "y");
      expect_close(statistics, expected.statistics, tolerance(), "statistics");
    }
  }
}

TEST_P(Norm, ForwardAddsTheResidualWithAndWithoutDropout) {
  const std::vector<std::uint32_t> positions{4, 9};
  for (const NormKind kind : kKinds) {
    for (const float probability : {0.0f, 0.25f}) {
      const index_t tokens = 6, width = 301;
      const Dropout dropout{probability, {1, 2}, 3, positions};
      const Tensor x = random({tokens, width}, 1), delta = random({tokens, width}, 2);
      const Tensor residual = tensor({tokens, width}), y = tensor({tokens, width});
      const Tensor statistics = floats({tokens, 2});
      const Tensor weight = random({width}, 3), shift = bias(kind, width, 4);
      norm_forward(ctx_, kind, kEpsilon, y, statistics, {x, delta, residual, dropout},
                   weight, shift);
      const Values r = sum_of(reference::dropout(delta.values(), dropout), x.values());
      expect_close(residual, r, tolerance(), "residual");
      const auto expected = reference::norm(kind, kEpsilon, residual.values(),
                                            weight.values(), values_or_none(shift));
      expect_close(y, expected.y, tolerance(), "y");
      expect_close(statistics, expected.statistics, tolerance(), "statistics");
    }
  }
}

TEST_P(Norm, BackwardAgainstFiniteDifferences) {
  for (const NormKind kind : kKinds) {
    for (const Shape& shape : {Shape{5, 7}, Shape{40, 33}}) {
      const index_t width = shape[1];
      const Tensor r = random(shape, 1), weight = random({width}, 2);
      const Tensor shift = bias(kind, width, 3), dy = random(shape, 4);
      const Tensor dr = random(shape, 5), dweight = random({width}, 6);
      const Tensor dbias = bias(kind, width, 7);
      const Values dr_before = dr.values(), dweight_before = dweight.values();
      const Values dbias_before = values_or_none(dbias);
      const auto loss = [&](const Values& rs, const Values& ws, const Values& bs) {
        return reference::dot(reference::norm(kind, kEpsilon, rs, ws, bs).y, dy.values());
      };
      const Values rs = r.values(), ws = weight.values(), bs = values_or_none(shift);

      const Tensor y = tensor(shape), statistics = floats({shape[0], 2});
      norm_forward(ctx_, kind, kEpsilon, y, statistics, {.x = r}, weight, shift);
      norm_backward(ctx_, kind, {dr, dweight, dbias}, dy, r, statistics, weight);

      using reference::numerical_gradient;
      expect_close(
          dr,
          sum_of(numerical_gradient([&](const Values& v) { return loss(v, ws, bs); }, rs),
                 dr_before),
          tolerance(), "dr");
      expect_close(
          dweight,
          sum_of(numerical_gradient([&](const Values& v) { return loss(rs, v, bs); }, ws),
                 dweight_before),
          tolerance(), "dweight");
      if (kind == NormKind::rms) continue;
      expect_close(
          dbias,
          sum_of(numerical_gradient([&](const Values& v) { return loss(rs, ws, v); }, bs),
                 dbias_before),
          tolerance(), "dbias");
    }
  }
}

TEST_P(Norm, BackwardTwiceIsBitwiseEqual) {
  const Shape shape{203, 65};
  const Tensor r = random(shape, 1), weight = random({65}, 2), dy = random(shape, 3);
  const Tensor statistics = floats({203, 2}, random_values(406, 4));
  const auto run = [&] {
    const Tensor dr = tensor(shape), dweight = tensor({65}), dbias = tensor({65});
    norm_backward(ctx_, NormKind::layer, {dr, dweight, dbias}, dy, r, statistics, weight);
    Values all = dr.values();
    for (const Tensor* t : {&dweight, &dbias}) {
      const Values more = t->values();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  EXPECT_EQ(run(), run());
}

TEST_P(Norm, ErrorsNameTheArgument) {
  const Tensor x = tensor({2, 4}), stats = floats({2, 2}), w = tensor({4}),
               odd = tensor({3});
  const auto forward = [&](NormKind kind, const Tensor& y, const Tensor& s,
                           const NormInput& in, const Tensor& weight, TensorView b) {
    norm_forward(ctx_, kind, kEpsilon, y, s, in, weight, b);
  };
  const NormKind layer = NormKind::layer;
  expect_error([&] { forward(layer, odd, stats, {.x = x}, w, w); },
               {"norm_forward", "y"});
  expect_error([&] { forward(layer, x, x, {.x = x}, w, w); }, {"statistics"});
  expect_error([&] { forward(layer, x, stats, {.x = x}, odd, w); }, {"weight"});
  expect_error([&] { forward(layer, x, stats, {.x = x}, w, odd); }, {"bias"});
  expect_error([&] { forward(NormKind::rms, x, stats, {.x = x}, w, w); }, {"bias"});
  expect_error([&] { forward(layer, x, stats, {.x = x, .delta = x}, w, w); },
               {"residual"});
  expect_error([&] { forward(layer, x, stats, {.x = x, .residual = x}, w, w); },
               {"delta"});
  expect_error(
      [&] {
        norm_backward(ctx_, layer, {x, w, odd}, x, x, stats, w);
      },
      {"norm_backward", "dbias"});
  expect_error([&] { norm_backward(ctx_, layer, {w, w, w}, x, x, stats, w); }, {"dr"});
}

}  // namespace
}  // namespace llmtrain::ops
