#include "llmtrain/model/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "llmtrain/core/error.hpp"

namespace llmtrain {
namespace {

ModelConfig model(std::int64_t layers, std::int64_t vocabulary) {
  ModelConfig config;
  config.layers = layers;
  config.heads = 4;
  config.width = 64;
  config.context = 64;
  config.vocabulary = vocabulary;
  resolve(config);
  return config;
}

std::vector<std::int64_t> blocks(const std::vector<ModelPart>& parts) {
  std::vector<std::int64_t> result;
  for (const ModelPart& part : parts) result.push_back(part.blocks);
  return result;
}

using Blocks = std::vector<std::int64_t>;

// A block of width 64 has 12 * 64 * 64 weights and 64 * 64 of attention; a head of 64 ids next
// to nothing, one of 1664 ids (2 * 13 * 64) as much as two blocks.
TEST(Partition, BalancesTheArithmeticOfBlocksAndHead) {
  EXPECT_EQ(blocks(model_parts(model(8, 64), 4, "")), (Blocks{2, 2, 2, 2}));
  EXPECT_EQ(blocks(model_parts(model(10, 1664), 4, "")), (Blocks{3, 3, 3, 1}));
  EXPECT_EQ(blocks(model_parts(model(6, 1664), 2, "")), (Blocks{4, 2}));
  EXPECT_EQ(blocks(model_parts(model(5, 64), 1, "")), (Blocks{5}));
  EXPECT_EQ(blocks(model_parts(model(3, 100000), 3, "")), (Blocks{1, 1, 1}));
}

TEST(Partition, EveryBlockOnceWithEmbeddingFirstAndHeadLast) {
  for (int layers = 1; layers <= 12; ++layers) {
    for (int parts = 1; parts <= layers; ++parts) {
      const auto all = model_parts(model(layers, 1000), parts, "");
      std::int64_t next = 0;
      for (const ModelPart& part : all) {
        EXPECT_EQ(part.first_block, next);
        EXPECT_GE(part.blocks, 1);
        EXPECT_EQ(part.embedding, &part == &all.front());
        EXPECT_EQ(part.head, &part == &all.back());
        next += part.blocks;
      }
      EXPECT_EQ(next, layers);
    }
  }
}

TEST(Partition, GivenBlocksAreTakenOrRefused) {
  EXPECT_EQ(blocks(model_parts(model(6, 64), 3, "1,4,1")), (Blocks{1, 4, 1}));
  for (const char* wrong : {"1,4", "1,4,2", "1,4,1,0", "6,0,0", "1,x,1", "1,4,1,",
                            ",1,4,1", "1 4 1", "-1,6,1"}) {
    EXPECT_THROW(model_parts(model(6, 64), 3, wrong), Error) << wrong;
  }
  EXPECT_THROW(model_parts(model(2, 64), 3, ""), Error);
}

}  // namespace
}  // namespace llmtrain
