// Collectives on crafted data, tested exactly. The sum in rank order is computed here by
// one loop over the ranks; values are chosen so that another order rounds differently.
#include "llmtrain/comm/communicator.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <tuple>

#include "llmtrain/comm/grid.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "rank_data.hpp"

namespace llmtrain {
namespace {

// By the ranks per node that are pretended (0 is the real node), the way within a node
// and the dtype.
class Collectives : public testing::TestWithParam<std::tuple<int, WithinNode, Dtype>> {
 protected:
  void SetUp() override {
    const auto [ranks_per_node, within_node, dtype] = GetParam();
    comm_ = make_world_communicator(ranks_per_node, within_node);
  }

  template <class Check>
  void for_dtype(Check check) {
    with_type(std::get<Dtype>(GetParam()), check);
  }
  template <class T>
  std::vector<T> own(index_t n) const {
    std::vector<T> x(static_cast<std::size_t>(n));
    for (index_t i = 0; i < n; ++i)
      x[static_cast<std::size_t>(i)] = of_rank<T>(rank(), i);
    return x;
  }
  template <class T>
  T of_rank(int r, index_t i) const {
    return element<T>(r, i, size());
  }
  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  std::unique_ptr<Communicator> comm_;
};

// Counts around the size of an exchange: 1 MiB, shared by the other ranks.
const index_t kCounts[] = {0, 1, 63, 1001, (1 << 18) - 1, (1 << 18) + 65, (1 << 19) + 77};

// The test data are fit to find sums that were taken in another way.
TEST_P(Collectives, OrderAndRoundingCanBeSeen) {
  for_dtype([&]<class T>(TypeTag<T>) {
    const index_t n = 1001;
    index_t reversed = 0, other_first = 0, rounded_each_time = 0;
    for (index_t i = 0; i < n; ++i) {
      const auto x = [&](int r) { return to_float(of_rank<T>(r, i)); };
      float down = 0, from_one = 0;
      T rounded = of_rank<T>(0, i);
      for (int r = size() - 1; r >= 0; --r) down += x(r);
      for (int r = 1; r <= size(); ++r) from_one += x(r % size());
      for (int r = 1; r < size(); ++r) rounded = from_float<T>(to_float(rounded) + x(r));
      const T expected = sum_in_rank_order<T>(size(), i);
      reversed += !same(from_float<T>(down), expected);
      other_first += !same(from_float<T>(from_one), expected);
      rounded_each_time += !same(rounded, expected);
    }
    const index_t least = size() > 2 ? n / 20 : 0;  // two values commute
    EXPECT_GE(reversed, least);
    EXPECT_GE(other_first, least);
    EXPECT_GE(rounded_each_time, sizeof(T) == 2 ? least : 0);
  });
}

TEST_P(Collectives, AllReduceSumsInRankOrder) {
  for_dtype([&]<class T>(TypeTag<T>) {
    for (const index_t n : kCounts) {
      std::vector<T> x = own<T>(n);
      comm_->all_reduce(view(x));
      const auto expected = [&](index_t i) { return sum_in_rank_order<T>(size(), i); };
      EXPECT_EQ(wrong_elements(x.data(), n, expected), 0) << "of " << n;
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsSlice) {
  for_dtype([&]<class T>(TypeTag<T>) {
    for (const index_t n : kCounts) {
      std::vector<T> x = own<T>(n * size());
      std::vector<T> slice(static_cast<std::size_t>(n));
      comm_->reduce_scatter(view(slice), view(x));
      const auto expected = [&](index_t i) {
        return sum_in_rank_order<T>(size(), rank() * n + i);
      };
      EXPECT_EQ(wrong_elements(slice.data(), n, expected), 0) << "of " << n;
    }
  });
}

TEST_P(Collectives, ReduceScatterInPlace) {
  for_dtype([&]<class T>(TypeTag<T>) {
    const index_t n = 70001;
    std::vector<T> x = own<T>(n * size());
    const TensorView slice = view(x).flat(rank() * n, n);
    comm_->reduce_scatter(slice, view(x));
    const auto expected = [&](index_t i) {
      return sum_in_rank_order<T>(size(), rank() * n + i);
    };
    EXPECT_EQ(wrong_elements(slice.data<T>(), n, expected), 0);
  });
}

TEST_P(Collectives, AllGatherPutsSlicesInRankOrder) {
  for_dtype([&]<class T>(TypeTag<T>) {
    for (const index_t n : kCounts) {
      std::vector<T> slice = own<T>(n),
                     full(slice.size() * static_cast<std::size_t>(size()));
      comm_->all_gather(view(full), view(slice));
      for (int r = 0; r < size(); ++r) {
        const auto expected = [&](index_t i) { return of_rank<T>(r, i); };
        EXPECT_EQ(wrong_elements(full.data() + r * n, n, expected), 0) << "of rank " << r;
      }
    }
  });
}

TEST_P(Collectives, AllGatherMovesIntegers) {
  const int n = 1001;
  std::vector<std::int32_t> full(static_cast<std::size_t>(n * size()));
  for (int i = 0; i < n; ++i) full[static_cast<std::size_t>(rank() * n + i)] = rank() - i;
  comm_->all_gather(view(full), view(full).flat(rank() * n, n));
  const auto expected = [&](index_t i) { return static_cast<int>(i / n - i % n); };
  EXPECT_EQ(wrong_elements(full.data(), n * size(), expected), 0);
}

TEST_P(Collectives, AllReduceIsReduceScatterThenAllGather) {
  for_dtype([&]<class T>(TypeTag<T>) {
    const index_t n = 64 * 257;
    std::vector<T> a = own<T>(n * size()), b = a;
    comm_->all_reduce(view(a));
    const TensorView slice = view(b).flat(rank() * n, n);
    comm_->reduce_scatter(slice, view(b));
    comm_->all_gather(view(b), slice);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(T)), 0);
  });
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
  for_dtype([&]<class T>(TypeTag<T>) {
    const index_t n = 128;
    std::vector<T> full(static_cast<std::size_t>(n * size())),
        slice(static_cast<std::size_t>(n));
    comm_->all_gather(view(full), view(slice));
    comm_->reduce_scatter(view(slice), view(full));
    comm_->all_reduce(view(full));
    EXPECT_EQ(comm_->traffic().all_gather, (size() - 1) * n);
    EXPECT_EQ(comm_->traffic().reduce_scatter, (size() - 1) * n);
    EXPECT_EQ(comm_->traffic().all_reduce, 2 * (size() - 1) * n);
  });
}

// Ranks enter and leave calls at different times: nobody may reach into a tensor whose
// owner is not there yet, or has gone on to write into it.
TEST_P(Collectives, RanksMayBeLate) {
  for_dtype([&]<class T>(TypeTag<T>) {
    const index_t n = 3001;
    std::vector<T> x(static_cast<std::size_t>(n));
    index_t wrong = 0;
    for (int round = 0; round < 3 * size(); ++round) {
      if (round % size() == rank())
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      x = own<T>(n);
      comm_->all_reduce(view(x));
      const auto expected = [&](index_t i) { return sum_in_rank_order<T>(size(), i); };
      wrong += wrong_elements(x.data(), n, expected);
    }
    EXPECT_EQ(wrong, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    RanksPerNode, Collectives,
    testing::Combine(testing::Values(0, 1, 2, 3),
                     testing::Values(WithinNode::fastest, WithinNode::staged),
                     testing::Values(Dtype::f32, Dtype::bf16, Dtype::fp16)));

// The sums depend neither on where the node borders are nor on the way within a node.
TEST(CollectivesAcrossNodes, BitwiseEqual) {
  const index_t n = 50003;
  std::vector<float> reference;
  for (const int ranks_per_node : {0, 1, 2, 3, 4}) {
    for (const WithinNode within_node : {WithinNode::fastest, WithinNode::staged}) {
      const auto comm = make_world_communicator(ranks_per_node, within_node);
      std::vector<float> x(static_cast<std::size_t>(n));
      for (index_t i = 0; i < n; ++i)
        x[static_cast<std::size_t>(i)] = spread(comm->rank(), i);
      comm->all_reduce(view(x));
      if (reference.empty()) reference = x;
      EXPECT_EQ(std::memcmp(x.data(), reference.data(), x.size() * sizeof(float)), 0)
          << ranks_per_node << " ranks a node";
    }
  }
}

// Two tags around a ring, several messages on their way, the larger ones not buffered: each
// kind arrives in the order of sending, whichever is received first.
TEST(Messages, KeepTheirOrderAndTag) {
  const auto world = make_world_communicator();
  const int size = world->size(), rank = world->rank();
  if (size == 1) {
    std::vector<float> x(1);
    EXPECT_THROW(world->send(view(x), 0, 0), Error);
    return;
  }
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  constexpr int kMessages = 3;
  const index_t messages_before = world->traffic().messages;
  std::vector<std::vector<float>> sent;
  std::vector<Communicator::Ticket> tickets;
  for (int m = 0; m < kMessages; ++m) {
    for (int tag = 0; tag < 2; ++tag) {
      sent.emplace_back(100000, static_cast<float>(100 * rank + 10 * tag + m));
      tickets.push_back(world->send(view(sent.back()), next, tag));
    }
  }
  for (int tag = 1; tag >= 0; --tag) {
    for (int m = 0; m < kMessages; ++m) {
      std::vector<float> got(100000);
      world->receive(view(got), before, tag);
      EXPECT_EQ(got, std::vector<float>(100000,
                                        static_cast<float>(100 * before + 10 * tag + m)));
    }
  }
  for (const Communicator::Ticket ticket : tickets) world->finish_send(ticket);
  EXPECT_THROW(world->finish_send(tickets[0]), Error);
  EXPECT_EQ(world->traffic().messages - messages_before, 2 * kMessages * 100000);
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
  std::vector<bf16> a{from_float<bf16>(1.5f)}, b(1);
  self->all_gather(view(b), view(a));
  EXPECT_EQ(b[0].bits, a[0].bits);

  const auto pretended = make_counting_communicator(2, 4);
  EXPECT_EQ(pretended->rank(), 2);
  pretended->all_gather(TensorView{nullptr, Dtype::fp16, Shape{400}},
                        TensorView{nullptr, Dtype::fp16, Shape{100}});
  EXPECT_EQ(pretended->traffic().all_gather, 300);
  std::vector<float> full(4);
  EXPECT_THROW(pretended->all_gather(view(full), view(full).flat(0, 1)), Error);
}

}  // namespace
}  // namespace llmtrain
