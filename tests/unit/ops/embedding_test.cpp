#include "llmtrain/ops/embedding.hpp"

#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class Embedding : public OpTest {
 protected:
  // 3 sequences of 4 tokens, of which several repeat.
  const index_t seq_len_ = 4, vocabulary_ = 6;
  const Labels ids_{5, 0, 0, 3, 0, 1, 5, 5, 5, 3, 0, 2};
};
INSTANTIATE_TEST_SUITE_P(, Embedding, testing::ValuesIn(kPrecisions), precision_name);

TEST_P(Embedding, ForwardWithAndWithoutPositions) {
  for (const index_t width : {1, 9, 200}) {
    const Tensor table = random({vocabulary_, width}, 1),
                 positions = random({5, width}, 2);
    const Tensor ids = integers({12}, ids_), y = tensor({12, width});
    Values expected;
    for (const std::int32_t id : ids_) {
      for (index_t c = 0; c < width; ++c)
        expected.push_back(table.values()[id * width + c]);
    }
    embedding_forward(ctx_, y, ids, table, {}, seq_len_);
    EXPECT_EQ(y.values(), expected);
    for (index_t i = 0; i < 12 * width; ++i) {
      expected[i] += positions.values()[i / width % seq_len_ * width + i % width];
    }
    embedding_forward(ctx_, y, ids, table, positions, seq_len_);
    expect_close(y, expected, tolerance());
  }
}

TEST_P(Embedding, BackwardAccumulatesBothTables) {
  for (const index_t width : {1, 9, 200}) {
    const Tensor dy = random({12, width}, 1), ids = integers({12}, ids_);
    const Tensor dtokens = random({vocabulary_, width}, 2),
                 dpositions = random({5, width}, 3);
    const Tensor dtokens_only = random({vocabulary_, width}, 2);
    Values tokens = dtokens.values(), positions = dpositions.values();
    const Values grads = dy.values();
    for (index_t i = 0; i < 12 * width; ++i) {
      const index_t t = i / width, c = i % width;
      tokens[ids_[t] * width + c] += grads[i];
      positions[t % seq_len_ * width + c] += grads[i];
    }
    embedding_backward(ctx_, dtokens, dpositions, dy, ids, seq_len_);
    expect_close(dtokens, tokens, tolerance());
    expect_close(dpositions, positions, tolerance());
    embedding_backward(ctx_, dtokens_only, {}, dy, ids, seq_len_);
    EXPECT_TRUE(same_bits(dtokens, dtokens_only));
  }
}

// 1e8 - 1e8 + 1 is 1 in this order and 0 in others.
TEST_P(Embedding, BackwardAddsTokensInOrder) {
  const Tensor dtokens = floats({2, 1});
  embedding_backward(ctx_, dtokens, {}, floats({3, 1}, {1e8, -1e8, 1.0}),
                     integers({3}, Labels{1, 1, 1}), 3);
  EXPECT_EQ(dtokens.values(), (Values{0.0, 1.0}));
}

// A frequent token: adding 1 to 256 in bf16 (2048 in fp16) would leave it as it is.
TEST_P(Embedding, ManyTokensOfOneRowAreAddedInF32) {
  const index_t tokens = 3000;
  const Tensor dtokens = tensor({1, 2}), dpositions = tensor({1, 2});
  embedding_backward(ctx_, dtokens, dpositions,
                     tensor({tokens, 2}, Values(2 * tokens, 1.0)),
                     integers({tokens}, Labels(tokens, 0)), 1);
  EXPECT_EQ(dtokens.values(), rounded({3000.0, 3000.0}));
  EXPECT_EQ(dpositions.values(), rounded({3000.0, 3000.0}));
}

TEST_P(Embedding, ErrorsNameTheArgument) {
  const Tensor y = tensor({4, 3}), ids = integers({4}, Labels{0, 1, 0, 1}),
               table = tensor({2, 3});
  const Tensor odd = tensor({2, 5});
  expect_error([&] { embedding_forward(ctx_, y, y, table, {}, 2); },
               {"embedding_forward", "ids"});
  expect_error([&] { embedding_forward(ctx_, y, ids, odd, {}, 2); }, {"tokens_table"});
  expect_error([&] { embedding_forward(ctx_, y, ids, table, odd, 2); },
               {"positions_table"});
  expect_error([&] { embedding_forward(ctx_, y, ids, table, table, 4); },
               {"positions_table", "seq_len"});
  expect_error([&] { embedding_backward(ctx_, odd, {}, y, ids, 2); },
               {"embedding_backward", "dtokens"});
  expect_error([&] { embedding_backward(ctx_, table, odd, y, ids, 2); }, {"dpositions"});
}

}  // namespace
}  // namespace llmtrain::ops
