// Communicators that move nothing: a group of one, and the pretended group of the meta
// device.
#include <cstring>

#include "llmtrain/comm/communicator.hpp"

namespace llmtrain {

namespace {

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  using Communicator::all_gather;
  std::vector<double> all_gather(std::span<const double> values) override {
    std::vector<double> result;
    for (int r = 0; r < size_; ++r)
      result.insert(result.end(), values.begin(), values.end());
    return result;
  }
  std::vector<std::string> all_gather(const std::string& bytes) override {
    return std::vector<std::string>(static_cast<std::size_t>(size_), bytes);
  }
  std::string broadcast(const std::string& bytes, int) override { return bytes; }
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override {
    return std::make_unique<LocalCommunicator>(rank_, size_);
  }

 protected:
  void do_reduce_scatter(TensorView slice, TensorView full) override {
    copy(slice, full);
  }
  void do_all_gather(TensorView full, TensorView slice) override { copy(full, slice); }
  void do_all_reduce(TensorView) override {}
  Ticket do_send(TensorView, int, int) override { return 0; }
  void do_finish_send(Ticket) override {}
  void do_receive(TensorView, int, int) override {}

 private:
  // Only a group of one has data; the pretended group runs on the meta device.
  void copy(TensorView to, TensorView from) const {
    if (to.is_meta() || from.is_meta()) return;
    require(size_ == 1, "a counting communicator was given real tensors");
    std::memmove(to.storage(), from.storage(), static_cast<std::size_t>(from.bytes()));
  }

  int rank_, size_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<LocalCommunicator>(0, 1);
}

std::unique_ptr<Communicator> make_counting_communicator(int rank, int size) {
  return std::make_unique<LocalCommunicator>(rank, size);
}

}  // namespace llmtrain
