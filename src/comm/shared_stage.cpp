#include "shared_stage.hpp"

#include <new>

namespace llmtrain {

SharedStage::SharedStage(MPI_Comm node) : area_(node, kHeader + 2 * kSlotBytes) {
  new (area_.of(area_.rank())) Counters{};
  MPI_Barrier(node);
}

SharedStage::Counters& SharedStage::counters(int node_rank) const {
  return *std::launder(reinterpret_cast<Counters*>(area_.of(node_rank)));
}

std::byte* SharedStage::slot(int node_rank) const {
  return area_.of(node_rank) + kHeader + static_cast<index_t>(exchange_ % 2) * kSlotBytes;
}

void SharedStage::begin() {
  ++exchange_;
  if (exchange_ <= 2) return;
  for (int r = 0; r < area_.size(); ++r) {
    area_.wait_until_at_least(counters(r).consumed, exchange_ - 2);
  }
}

std::byte* SharedStage::own_slot() { return slot(area_.rank()); }

void SharedStage::publish() {
  counters(area_.rank()).published.store(exchange_, std::memory_order_release);
}

const std::byte* SharedStage::await(int node_rank) {
  area_.wait_until_at_least(counters(node_rank).published, exchange_);
  return slot(node_rank);
}

void SharedStage::end() {
  counters(area_.rank()).consumed.store(exchange_, std::memory_order_release);
}

}  // namespace llmtrain
