// Collectives on device buffers: shared ones, which peers map, beside private ones.
#include <gtest/gtest.h>

#include <tuple>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/device/device.hpp"
#include "llmtrain/device/shared_memory.hpp"
#include "rank_data.hpp"

namespace llmtrain {
namespace {

// By the ranks per node that are pretended and the dtype.
class SharedBuffers : public testing::TestWithParam<std::tuple<int, Dtype>> {
 protected:
  template <class T>
  void fill(TensorView x, index_t first = 0) const {
    for (index_t i = 0; i < x.count(); ++i)
      x.data<T>()[i] = element<T>(rank_, first + i, size_);
  }
  // x is the sums from element `first` on.
  template <class T>
  void expect_sums(TensorView x, index_t first, const std::string& what) const {
    const auto expected = [&](index_t i) {
      return sum_in_rank_order<T>(size_, first + i);
    };
    EXPECT_EQ(wrong_elements(x.data<T>(), x.count(), expected), 0) << what;
  }
  template <class T>
  void check_all(const Buffer& buffer, index_t begin, index_t n,
                 const std::string& what) {
    const TensorView full = buffer.view(DtypeOf<T>::value).flat(begin, n * size_);
    const TensorView slice = full.flat(rank_ * n, n);
    fill<T>(full);
    comm_->all_reduce(full);
    expect_sums<T>(full, 0, "all_reduce, " + what);
    fill<T>(full);
    comm_->reduce_scatter(slice, full);
    expect_sums<T>(slice, rank_ * n, "reduce_scatter, " + what);
    comm_->all_gather(full, slice);
    expect_sums<T>(full, 0, "all_gather, " + what);
    // A count that the ranks do not divide.
    const TensorView odd = full.flat(0, n - 1);
    fill<T>(odd, 7);
    comm_->all_reduce(odd);
    expect_sums<T>(odd, 7, "all_reduce of n - 1, " + what);
  }

  std::unique_ptr<Communicator> comm_ =
      make_world_communicator(std::get<int>(GetParam()));
  int rank_ = comm_->rank(), size_ = comm_->size();
};

// Each round frees the buffer before the last and allocates one that the system likes to
// put in its place, of another kind on every rank, and cut at another offset.
TEST_P(SharedBuffers, ExactWhileBuffersComeAndGo) {
  Device shared(DeviceKind::cpu, Sharing::node), plain(DeviceKind::cpu);
  with_type(std::get<Dtype>(GetParam()), [&]<class T>(TypeTag<T>) {
    const index_t n = 40001, most = n * size_ + 100;
    Buffer buffers[2];
    for (int round = 0; round < 8; ++round) {
      Device& device = (rank_ + round / 2) % 3 == 2 ? plain : shared;
      Buffer& buffer = buffers[round % 2];
      buffer = {};
      buffer = device.allocate(most * index_t{sizeof(T)}, MemoryUse::gradients);
      EXPECT_EQ(SharedMemory::find(buffer.data()).has_value(), &device == &shared);
      check_all<T>(buffer, (rank_ * 3 + round) % 100, n, cat("round ", round));
    }
    check_all<T>(buffers[0], 5, n, "the one before the last");
  });
}

TEST_P(SharedBuffers, OfSplitCommunicators) {
  Device device(DeviceKind::cpu, Sharing::node);
  with_type(std::get<Dtype>(GetParam()), [&]<class T>(TypeTag<T>) {
    const index_t n = 3001;
    const Buffer buffer =
        device.allocate(n * size_ * index_t{sizeof(T)}, MemoryUse::weights);
    check_all<T>(buffer, 0, n, "world");
    const auto alone = comm_->split(rank_);
    alone->all_reduce(buffer.view(DtypeOf<T>::value));
    const auto all = comm_->split(0);
    check_all<T>(buffer, 0, n, "world again");
    const TensorView x = buffer.view(DtypeOf<T>::value);
    fill<T>(x);
    all->all_reduce(x);
    expect_sums<T>(x, 0, "split");
  });
}

INSTANTIATE_TEST_SUITE_P(RanksPerNode, SharedBuffers,
                         testing::Combine(testing::Values(0, 2, 3),
                                          testing::Values(Dtype::f32, Dtype::bf16,
                                                          Dtype::fp16)));

}  // namespace
}  // namespace llmtrain
