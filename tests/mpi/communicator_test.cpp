// Collectives on crafted data, tested exactly. The sum in rank order is computed here by
// one loop over the ranks; values are chosen so that another order rounds differently.
#include "llmtrain/comm/communicator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "llmtrain/comm/grid.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"

namespace llmtrain {
namespace {

// Element i of rank r: magnitudes from 1e-3 to 1e4, so that float addition does not
// commute across the ranks. Not inlined, or product and sum would fuse and round once.
[[gnu::noinline]] float element(int r, index_t i) {
  const auto bits =
      static_cast<std::uint32_t>(i * 2654435761u + static_cast<unsigned>(r) * 40503u);
  const float mantissa = static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f;
  return mantissa * std::pow(10.0f, static_cast<float>((bits & 7u)) - 3.0f);
}

float sum_in_rank_order(int size, index_t i) {
  float sum = element(0, i);
  for (int r = 1; r < size; ++r) sum += element(r, i);
  return sum;
}

// Counts the elements that differ; an early return would leave the other ranks waiting.
template <class Expected>
index_t wrong_elements(const float* x, index_t n, Expected expected) {
  index_t wrong = 0;
  for (index_t i = 0; i < n; ++i) wrong += x[i] != expected(i);
  return wrong;
}

TensorView view(std::vector<float>& x) {
  return {x.data(), Dtype::f32, Shape{static_cast<index_t>(x.size())}};
}

// The ranks per node that are pretended: 0 is the real node.
class Collectives : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { comm_ = make_world_communicator(GetParam()); }
  std::vector<float> own(index_t n) const {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (index_t i = 0; i < n; ++i)
      x[static_cast<std::size_t>(i)] = element(comm_->rank(), i);
    return x;
  }
  std::unique_ptr<Communicator> comm_;
};

// Counts around the size of an exchange, 2^18 elements over the other ranks.
const index_t kCounts[] = {0, 1, 64, 1000, (1 << 18) - 1, (1 << 18) + 65};

TEST_P(Collectives, AllReduceSumsInRankOrder) {
  for (const index_t n : kCounts) {
    std::vector<float> x = own(n);
    comm_->all_reduce(view(x));
    const auto expected = [&](index_t i) { return sum_in_rank_order(comm_->size(), i); };
    EXPECT_EQ(wrong_elements(x.data(), n, expected), 0) << "of " << n;
  }
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsSlice) {
  for (const index_t n : kCounts) {
    std::vector<float> x = own(n * comm_->size());
    std::vector<float> slice(static_cast<std::size_t>(n));
    comm_->reduce_scatter(view(slice), view(x));
    const auto expected = [&](index_t i) {
      return sum_in_rank_order(comm_->size(), comm_->rank() * n + i);
    };
    EXPECT_EQ(wrong_elements(slice.data(), n, expected), 0) << "of " << n;
  }
}

TEST_P(Collectives, ReduceScatterInPlace) {
  const index_t n = 70001;
  std::vector<float> x = own(n * comm_->size());
  const TensorView slice = view(x).flat(comm_->rank() * n, n);
  comm_->reduce_scatter(slice, view(x));
  const auto expected = [&](index_t i) {
    return sum_in_rank_order(comm_->size(), comm_->rank() * n + i);
  };
  EXPECT_EQ(wrong_elements(slice.data<float>(), n, expected), 0);
}

TEST_P(Collectives, AllGatherPutsSlicesInRankOrder) {
  for (const index_t n : kCounts) {
    std::vector<float> slice = own(n),
                       full(slice.size() * static_cast<std::size_t>(comm_->size()));
    comm_->all_gather(view(full), view(slice));
    for (int r = 0; r < comm_->size(); ++r) {
      const auto expected = [&](index_t i) { return element(r, i); };
      EXPECT_EQ(wrong_elements(full.data() + r * n, n, expected), 0) << "of rank " << r;
    }
  }
}

TEST_P(Collectives, AllReduceIsReduceScatterThenAllGather) {
  const index_t n = 64 * 257;
  std::vector<float> a = own(n * comm_->size()), b = a;
  comm_->all_reduce(view(a));
  const TensorView slice = view(b).flat(comm_->rank() * n, n);
  comm_->reduce_scatter(slice, view(b));
  comm_->all_gather(view(b), slice);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST_P(Collectives, HostData) {
  const int rank = comm_->rank(), size = comm_->size();
  const double mine[] = {rank + 0.5, -rank * 1.0};
  const std::vector<double> all = comm_->all_gather(mine);
  ASSERT_EQ(all.size(), 2u * static_cast<unsigned>(size));
  const auto texts =
      comm_->all_gather(std::string(static_cast<std::size_t>(rank * 3), 'a'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) {
    EXPECT_EQ(all[2 * static_cast<std::size_t>(r)], r + 0.5);
    EXPECT_EQ(all[2 * static_cast<std::size_t>(r) + 1], -r * 1.0);
    EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(r * 3));
  }
  EXPECT_EQ(comm_->broadcast(rank == size - 1 ? "from the last" : "", size - 1),
            "from the last");
  EXPECT_EQ(comm_->broadcast(rank == 0 ? "" : "x", 0), "");
}

TEST_P(Collectives, SplitKeepsTheOrderOfRanks) {
  const auto half = comm_->split(comm_->rank() % 2);
  EXPECT_EQ(half->rank(), comm_->rank() / 2);
  std::vector<float> x{static_cast<float>(comm_->rank())};
  half->all_reduce(view(x));
  float expected = 0;
  for (int r = comm_->rank() % 2; r < comm_->size(); r += 2)
    expected += static_cast<float>(r);
  EXPECT_EQ(x[0], expected);
}

TEST_P(Collectives, TrafficIsCountedInElements) {
  const index_t n = 128, size = comm_->size();
  std::vector<float> full(static_cast<std::size_t>(n * size)),
      slice(static_cast<std::size_t>(n));
  comm_->all_gather(view(full), view(slice));
  comm_->reduce_scatter(view(slice), view(full));
  comm_->all_reduce(view(full));
  EXPECT_EQ(comm_->traffic().all_gather, (size - 1) * n);
  EXPECT_EQ(comm_->traffic().reduce_scatter, (size - 1) * n);
  EXPECT_EQ(comm_->traffic().all_reduce, 2 * (size - 1) * n);
}

INSTANTIATE_TEST_SUITE_P(RanksPerNode, Collectives, testing::Values(0, 1, 2, 3));

// The sums do not depend on where the node borders are.
TEST(CollectivesAcrossNodes, BitwiseEqual) {
  const index_t n = 50003;
  std::vector<float> reference;
  for (const int ranks_per_node : {0, 1, 2, 3, 4}) {
    const auto comm = make_world_communicator(ranks_per_node);
    std::vector<float> x(static_cast<std::size_t>(n));
    for (index_t i = 0; i < n; ++i)
      x[static_cast<std::size_t>(i)] = element(comm->rank(), i);
    comm->all_reduce(view(x));
    if (reference.empty()) reference = x;
    EXPECT_EQ(std::memcmp(x.data(), reference.data(), x.size() * sizeof(float)), 0)
        << ranks_per_node << " ranks a node";
  }
}

TEST(Grid, CoordinatesAndGroups) {
  const auto world = make_world_communicator();
  const int size = world->size();
  for (int tensor = 1; tensor <= size; ++tensor) {
    if (size % tensor != 0) continue;
    GridShape shape;
    shape[Axis::tensor] = tensor;
    shape[Axis::data] = size / tensor;
    ProcessGrid grid(*world, shape);
    EXPECT_EQ(grid.coordinate(Axis::tensor), world->rank() % tensor);
    EXPECT_EQ(grid.coordinate(Axis::data), world->rank() / tensor);
    for (const Axis axis : {Axis::data, Axis::pipeline, Axis::context, Axis::tensor}) {
      EXPECT_EQ(grid.along(axis).size(), shape[axis]);
      EXPECT_EQ(grid.along(axis).rank(), grid.coordinate(axis));
    }
    std::vector<float> x{static_cast<float>(world->rank())};
    grid.along(Axis::tensor).all_reduce(view(x));
    const int first = grid.coordinate(Axis::data) * tensor;
    EXPECT_EQ(x[0], static_cast<float>(tensor * first + tensor * (tensor - 1) / 2));
  }
}

TEST(Grid, WrongProductNamesEveryFactor) {
  const auto world = make_world_communicator();
  GridShape shape;
  shape[Axis::data] = world->size() + 1;
  try {
    ProcessGrid grid(*world, shape);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::usage);
    EXPECT_NE(
        std::string(error.what()).find(cat("data ", world->size() + 1, " x pipeline 1")),
        std::string::npos);
  }
}

TEST(LocalCommunicators, MoveNothing) {
  const auto self = make_self_communicator();
  std::vector<float> x{1, 2, 3}, y(3);
  self->all_reduce(view(x));
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3}));
  self->reduce_scatter(view(y), view(x));
  EXPECT_EQ(y, x);

  const auto pretended = make_counting_communicator(2, 4);
  EXPECT_EQ(pretended->rank(), 2);
  pretended->all_gather(TensorView{nullptr, Dtype::f32, Shape{400}},
                        TensorView{nullptr, Dtype::f32, Shape{100}});
  EXPECT_EQ(pretended->traffic().all_gather, 300);
  EXPECT_THROW(pretended->all_gather(view(x), TensorView{x.data(), Dtype::f32, Shape{1}}),
               Error);
}

}  // namespace
}  // namespace llmtrain
