#include "llmtrain/ops/attention.hpp"

#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

using reference::AttentionProblem;

class Attention : public OpTest {
 protected:
  static index_t tokens(const AttentionShape& s) { return s.sequences * s.seq_len; }

  struct Run {
    Tensor out, lse, dqkv;
  };
  // Forward and backward of the op.
  Run run(const AttentionProblem& problem, const Values& qkv_values, const Values& dout) {
    const auto& s = problem.shape;
    Run result{tensor({tokens(s), s.heads * s.head_dim}),
               floats({s.sequences * s.heads, s.seq_len}),
               tensor({tokens(s), s.columns()}, Values(qkv_values.size(), NAN))};
    const Tensor qkv = tensor({tokens(s), s.columns()}, qkv_values);
    Tensor starts;
    if (!problem.document_starts.empty()) {
      starts = integers({s.sequences, s.seq_len}, problem.document_starts);
    }
    attention_forward(ctx_, result.out, result.lse, qkv, s, {starts}, problem.dropout);
    attention_backward(ctx_, result.dqkv, tensor(result.out.view().shape(), dout), qkv,
                       result.out, result.lse, s, {starts}, problem.dropout);
    return result;
  }

  // Compares forward and backward with the double reference.
  void check(const AttentionProblem& problem) {
    const auto& s = problem.shape;
    const std::string what = cat("T ", s.seq_len, " H ", s.heads, " G ", s.kv_heads,
                                 " D ", s.head_dim, " p ", problem.dropout.probability);
    const Values qkv = rounded(scaled(random_values(tokens(s) * s.columns(), 1), 2.0));
    const Values dout = rounded(random_values(tokens(s) * s.heads * s.head_dim, 2));
    const Run got = run(problem, qkv, dout);
    const auto expected = reference::attention(problem, qkv);
    expect_close(got.out, expected.out, tolerance(), "out, " + what);
    expect_close(got.lse, expected.lse, tolerance(), "lse, " + what);
    expect_close(got.dqkv, reference::attention_gradient(problem, qkv, dout), tolerance(),
                 "dqkv, " + what);
  }

  // Documents of 1, 2, 3, ... `longest`, 1, 2, ... tokens.
  static Labels documents(const AttentionShape& s, index_t longest) {
    Labels starts;
    for (index_t b = 0; b < s.sequences; ++b) {
      index_t length = 1 + b, begin = 0;
      for (index_t t = 0; t < s.seq_len; ++t) {
        if (t == begin + length) {
          begin = t;
          length = length % longest + 1;
        }
        starts.push_back(static_cast<std::int32_t>(begin));
      }
    }
    return starts;
  }

  const std::vector<std::uint32_t> positions_{5, 2};
};
INSTANTIATE_TEST_SUITE_P(, Attention, testing::ValuesIn(kPrecisions), precision_name);

TEST_P(Attention, EveryHeadDim) {
  for (const index_t head_dim : {1, 7, 8, 16, 32, 48, 64, 80, 128, 256}) {
    check({{1, 70, 1, 1, head_dim}, {}, {}});
  }
}

TEST_P(Attention, EveryLengthAroundTheTiles) {
  for (const index_t seq_len : {1, 2, 31, 32, 33, 63, 64, 65, 97, 128, 200}) {
    check({{2, seq_len, 2, 2, 16}, {}, {}});
  }
}

TEST_P(Attention, GroupedHeads) {
  check({{2, 75, 4, 2, 16}, {}, {}});
  check({{2, 75, 6, 1, 8}, {}, {}});
}

TEST_P(Attention, DocumentStarts) {
  for (const index_t longest : {3, 40, 90}) {
    const AttentionShape shape{2, 210, 2, 1, 16};
    check({shape, documents(shape, longest), {}});
  }
}

// Lengths that are and are not multiples of the four draws of a group.
TEST_P(Attention, DropoutOfProbabilities) {
  for (const index_t seq_len : {5, 64, 99, 130}) {
    const AttentionShape shape{2, seq_len, 4, 2, 16};
    check({shape, {}, {0.3f, {1, 2}, 3, positions_}});
    check({shape, documents(shape, 50), {0.3f, {1, 2}, 3, positions_}});
  }
}

TEST_P(Attention, BackwardAgainstFiniteDifferences) {
  for (const float probability : {0.0f, 0.2f}) {
    const AttentionShape shape{1, 9, 2, 1, 4};
    const AttentionProblem problem{
        shape, documents(shape, 6), {probability, {1, 2}, 3, positions_}};
    AttentionProblem one = problem;
    one.dropout.positions = std::span(positions_).first(1);
    const Values qkv = rounded(random_values(9 * shape.columns(), 1));
    const Values dout = rounded(random_values(9 * 8, 2));
    const Values expected = reference::numerical_gradient(
        [&](const Values& v) {
          return reference::dot(reference::attention(one, v).out, dout);
        },
        qkv);
    expect_close(run(one, qkv, dout).dqkv, expected, tolerance());
  }
}

// Scores of several thousands overflow an exponential that does not subtract the maximum.
TEST_P(Attention, LargeScoresStayFinite) {
  const AttentionProblem problem{{1, 80, 1, 1, 16}, {}, {}};
  const Values qkv = rounded(scaled(random_values(80 * 48, 1), 60.0));
  const Run got = run(problem, qkv, random_values(80 * 16, 2));
  // A score of 5000 carries an absolute rounding error of 3e-4, which exp passes on.
  expect_close(got.out, reference::attention(problem, qkv).out, 2e-3 + tolerance());
  for (const double v : got.dqkv.values()) ASSERT_TRUE(std::isfinite(v));
}

TEST_P(Attention, NanPropagates) {
  const AttentionProblem problem{{1, 70, 1, 1, 16}, {}, {}};
  Values qkv = random_values(70 * 48, 1);
  qkv[66 * 48 + 16] = NAN;  // the key of token 66
  const Run got = run(problem, qkv, random_values(70 * 16, 2));
  for (index_t t = 0; t < 70; ++t) {
    EXPECT_EQ(std::isnan(got.out.values()[t * 16]), t >= 66) << t;
  }
}

TEST_P(Attention, SequencesAreIndependentOfTheirBatch) {
  const Values qkv = random_values(2 * 50 * 64, 1), dout = random_values(2 * 50 * 32, 2);
  const Dropout dropout{0.3f, {1, 2}, 3, positions_};
  const Run both = run({{2, 50, 2, 1, 16}, {}, dropout}, qkv, dout);
  Dropout second = dropout;
  second.positions = std::span(positions_).last(1);
  const Run alone =
      run({{1, 50, 2, 1, 16}, {}, second}, Values(qkv.begin() + 50 * 64, qkv.end()),
          Values(dout.begin() + 50 * 32, dout.end()));
  EXPECT_TRUE(same_bits(both.out.view().rows(50, 50), alone.out));
  EXPECT_TRUE(same_bits(both.dqkv.view().rows(50, 50), alone.dqkv));
}

TEST_P(Attention, TwiceIsBitwiseEqual) {
  const AttentionProblem problem{{2, 100, 4, 2, 32}, {}, {0.1f, {1, 2}, 3, positions_}};
  const Values qkv = random_values(200 * problem.shape.columns(), 1);
  const Values dout = random_values(200 * 128, 2);
  const Run a = run(problem, qkv, dout), b = run(problem, qkv, dout);
  EXPECT_TRUE(same_bits(a.out, b.out));
  EXPECT_TRUE(same_bits(a.dqkv, b.dqkv));
}

TEST_P(Attention, ErrorsNameTheArgument) {
  const Tensor qkv = tensor({8, 48}), out = tensor({8, 16}), lse = floats({2, 4});
  const AttentionShape shape{2, 4, 1, 1, 16};
  const auto forward = [&](const Tensor& o, const Tensor& l, const Tensor& x,
                           const AttentionShape& s, const AttentionMask& m,
                           const Dropout& d) {
    attention_forward(ctx_, o, l, x, s, m, d);
  };
  expect_error([&] { forward(lse, lse, qkv, shape, {}, {}); },
               {"attention_forward", "out"});
  expect_error([&] { forward(out, out, qkv, shape, {}, {}); }, {"lse"});
  expect_error([&] { forward(out, lse, out, shape, {}, {}); }, {"qkv"});
  expect_error(
      [&] {
        forward(out, lse, qkv, {2, 4, 3, 2, 16}, {}, {});
      },
      {"shape.heads"});
  expect_error(
      [&] {
        forward(out, lse, qkv, {2, 4, 1, 1, 257}, {}, {});
      },
      {"shape.head_dim"});
  expect_error([&] { forward(out, lse, qkv, shape, {out}, {}); }, {"document_starts"});
  const std::vector<std::uint32_t> four{1, 2, 3, 4};
  expect_error(
      [&] {
        forward(out, lse, qkv, shape, {}, {0.1f, {}, 0, four});
      },
      {"dropout.positions"});
  expect_error([&] { attention_backward(ctx_, out, out, qkv, out, lse, shape, {}, {}); },
               {"attention_backward", "dqkv"});
  expect_error([&] { attention_backward(ctx_, qkv, lse, qkv, out, lse, shape, {}, {}); },
               {"dout"});
}

}  // namespace
}  // namespace llmtrain::ops
