// Collectives over MPI whose sums are taken in rank order.
//
// A tensor is cut into exchanges small enough to stay in cache. In each, the owner of a
// part gets every other rank's piece of it and adds the pieces in rank order: between
// nodes by a message; within the node it reads the others' memory (mapped here, or by
// copies that the kernel makes), or where the system forbids that, by way of the shared
// stage. Gathering is the mirror: owners write into the others' memory.
//
// Within a call, ranks of a node that reach each other's memory need not wait for each
// other: a part of any rank's tensor is read and written by the part's owner alone.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "host_data.hpp"
#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "messages.hpp"
#include "mpi_check.hpp"
#include "ordered_sum.hpp"
#include "peer_memory.hpp"
#include "shared_stage.hpp"

namespace llmtrain {

namespace {

// The pieces of an exchange that are read from others' memory: the fastest of 32 KiB to
// 1 MiB.
constexpr index_t kPeerExchange = 256 << 10;

// Where rank r's part of an exchange lies in the full tensor, in bytes.
struct Part {
  index_t begin, bytes;
};

void copy_bytes(std::byte* to, const std::byte* from, index_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

class MpiCommunicator : public Communicator {
 public:
  // Takes `comm` over. Collective.
  MpiCommunicator(MPI_Comm comm, int ranks_per_node, WithinNode within_node)
      : comm_(comm), ranks_per_node_(ranks_per_node), within_node_(within_node) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    if (ranks_per_node_ > 0) {
      MPI_Comm_split(comm_, rank_ / ranks_per_node_, rank_, &node_);
    } else {
      MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node_);
    }
    find_node_ranks();
    const auto others = static_cast<std::size_t>(size_ - 1);
    sources_.resize(others + 1);
    outs_.reserve(others + 1);
    requests_.reserve(2 * others);
  }

  ~MpiCommunicator() override {
    stage_.reset();
    peers_.reset();
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized) return;
    MPI_Comm_free(&node_);
    MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { mpi_check(MPI_Barrier(comm_), "MPI_Barrier"); }

  using Communicator::all_gather;
  std::vector<double> all_gather(std::span<const double> values) override {
    return all_gather_values(comm_, values);
  }
  std::vector<std::string> all_gather(const std::string& bytes) override {
    return all_gather_bytes(comm_, bytes);
  }
  std::string broadcast(const std::string& bytes, int root) override {
    return broadcast_bytes(comm_, bytes, root);
  }
  std::unique_ptr<Communicator> split(int color) override;

 protected:
  void do_reduce_scatter(TensorView slice, TensorView full) override;
  void do_all_gather(TensorView full, TensorView slice) override;
  void do_all_reduce(TensorView x) override;
  Ticket do_send(TensorView x, int to, int tag) override {
    return messages_.send(comm_, x, to, tag);
  }
  void do_finish_send(Ticket ticket) override { messages_.finish_send(ticket); }
  void do_receive(TensorView x, int from, int tag) override {
    messages_.receive(comm_, x, from, tag);
  }

 private:
  void find_node_ranks();
  int node_rank(int r) const { return node_rank_[static_cast<std::size_t>(r)]; }
  bool on_node(int r) const { return node_rank(r) >= 0; }
  // The tensor of rank r in this process, if it is mapped.
  std::byte* mapped(int r) const {
    return peers_ && on_node(r) ? peers_->mapped(node_rank(r)) : nullptr;
  }
  // The ranks other than this one are visited from the next one on, so that not all of
  // them reach for the same rank's memory.
  template <class Visit>
  void for_others(Visit visit) const {
    for (int i = 1; i < size_; ++i) visit((rank_ + i) % size_);
  }
  // What an exchange moves per rank, in bytes: the pieces of all others fill a buffer.
  index_t piece() const {
    constexpr index_t kMultiple = 64;
    return exchange_bytes_ / std::max(1, size_ - 1) / kMultiple * kMultiple;
  }
  // Slot of rank d among the pieces that rank r gives or gets: r itself is left out.
  index_t slot_begin(int d, int r) const { return (d < r ? d : d - 1) * piece(); }

  void prepare();
  template <class Work>
  void on_tensor(TensorView full, Work work);
  void post_exchange(int other, const std::byte* send, index_t send_bytes,
                     std::byte* receive, index_t receive_bytes);
  void finish_exchanges();
  template <class PartOf>
  void fill_stage(const std::byte* full, PartOf part_of);
  template <class T, class PartOf>
  void reduce_exchange(const std::byte* full, PartOf part_of);
  template <class PartOf>
  void gather_exchange(std::byte* full, const std::byte* own, PartOf part_of,
                       bool to_mapped = true);
  template <class T>
  void reduce_scatter_of(TensorView slice, TensorView full);
  template <class T>
  void all_reduce_of(TensorView x);

  MPI_Comm comm_, node_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, ranks_per_node_;
  WithinNode within_node_;
  std::vector<int> node_rank_;  // by rank: its rank in node_, or -1 on another node
  // One of the two, from the first tensor on.
  std::unique_ptr<PeerMemory> peers_;
  std::optional<SharedStage> stage_;
  index_t exchange_bytes_ = 0;
  // Of the current exchange; kept so that an exchange allocates nothing.
  std::vector<const std::byte*> sources_;  // by rank: its piece for this rank
  std::vector<std::byte*> outs_;           // where its sum goes
  // Pieces that did not come by the stage. Aligned, for the kernel copies to it by pages.
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> received_;
  std::vector<MPI_Request> requests_;
  Messages messages_;
};

void MpiCommunicator::find_node_ranks() {
  MPI_Group all, local;
  MPI_Comm_group(comm_, &all);
  MPI_Comm_group(node_, &local);
  std::vector<int> ranks(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) ranks[static_cast<std::size_t>(r)] = r;
  node_rank_.resize(ranks.size());
  MPI_Group_translate_ranks(all, size_, ranks.data(), local, node_rank_.data());
  for (int& r : node_rank_) r = r == MPI_UNDEFINED ? -1 : r;
  MPI_Group_free(&all);
  MPI_Group_free(&local);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color) {
  MPI_Comm part;
  mpi_check(MPI_Comm_split(comm_, color, rank_, &part), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(part, ranks_per_node_, within_node_);
}

// What tensors need; collective. All ranks of all nodes take the same way, for the size
// of the messages between nodes depends on it.
void MpiCommunicator::prepare() {
  if (exchange_bytes_ > 0) return;
  const bool other_nodes = std::count(node_rank_.begin(), node_rank_.end(), -1) > 0;
  if (within_node_ == WithinNode::fastest) peers_ = PeerMemory::make(node_);
  int by_peers = peers_ != nullptr;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &by_peers, 1, MPI_INT, MPI_MIN, comm_),
            "MPI_Allreduce");
  if (!by_peers) {
    peers_.reset();
    stage_.emplace(node_);
  }
  exchange_bytes_ = by_peers && !other_nodes ? kPeerExchange : SharedStage::kSlotBytes;
  require(piece() > 0, "", size_, " ranks are too many to share an exchange");
  if (by_peers || other_nodes) {
    received_.resize(static_cast<std::size_t>(
        divide_up(piece() * (size_ - 1), index_t{sizeof(Page)})));
  }
}

// Does work() while the ranks of the node can reach each other's `full`.
template <class Work>
void MpiCommunicator::on_tensor(TensorView full, Work work) {
  prepare();
  if (peers_) peers_->open(full.storage());
  work();
  if (peers_) peers_->close();
}

void MpiCommunicator::post_exchange(int other, const std::byte* send, index_t send_bytes,
                                    std::byte* receive, index_t receive_bytes) {
  mpi_check(MPI_Irecv(receive, mpi_count(receive_bytes), MPI_BYTE, other, 0, comm_,
                      &requests_.emplace_back()),
            "MPI_Irecv");
  mpi_check(MPI_Isend(send, mpi_count(send_bytes), MPI_BYTE, other, 0, comm_,
                      &requests_.emplace_back()),
            "MPI_Isend");
}

void MpiCommunicator::finish_exchanges() {
  mpi_check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(),
                        MPI_STATUSES_IGNORE),
            "MPI_Waitall");
  requests_.clear();
}

// Hands the node's ranks their pieces and finds this rank's own ones.
template <class PartOf>
void MpiCommunicator::fill_stage(const std::byte* full, PartOf part_of) {
  stage_->begin();
  for_others([&](int r) {
    if (!on_node(r)) return;
    const Part part = part_of(r);
    copy_bytes(stage_->own_slot() + slot_begin(r, rank_), full + part.begin, part.bytes);
  });
  stage_->publish();
  for_others([&](int r) {
    if (!on_node(r)) return;
    sources_[static_cast<std::size_t>(r)] =
        stage_->await(node_rank(r)) + slot_begin(rank_, r);
  });
}

// outs_ = the sum in rank order of every rank's part_of(own rank), elements T; outs_ may
// be that part of any rank's tensor.
template <class T, class PartOf>
void MpiCommunicator::reduce_exchange(const std::byte* full, PartOf part_of) {
  const Part own = part_of(rank_);
  sources_[static_cast<std::size_t>(rank_)] = full + own.begin;
  for_others([&](int r) {
    if (on_node(r)) return;
    const Part part = part_of(r);
    std::byte* const to = received_[0].bytes + slot_begin(r, rank_);
    sources_[static_cast<std::size_t>(r)] = to;
    post_exchange(r, full + part.begin, part.bytes, to, own.bytes);
  });
  if (stage_) fill_stage(full, part_of);
  if (peers_) {
    for_others([&](int r) {
      if (!on_node(r)) return;
      const std::byte*& source = sources_[static_cast<std::size_t>(r)];
      if (mapped(r)) {
        source = mapped(r) + own.begin;
        return;
      }
      std::byte* const to = received_[0].bytes + slot_begin(r, rank_);
      source = to;
      peers_->read(node_rank(r), own.begin, to, own.bytes);
    });
  }
  finish_exchanges();
  sum_in_order<T>(outs_, sources_, own.bytes / index_t{sizeof(T)});
  if (stage_) stage_->end();
}

// full[part_of(r)] = the `own` of rank r, for all r; own may be part_of(rank()) of full.
// Without `to_mapped`, the tensors that are mapped here have it already.
template <class PartOf>
void MpiCommunicator::gather_exchange(std::byte* full, const std::byte* own,
                                      PartOf part_of, bool to_mapped) {
  const Part mine = part_of(rank_);
  for_others([&](int r) {
    if (on_node(r)) return;
    const Part part = part_of(r);
    post_exchange(r, own, mine.bytes, full + part.begin, part.bytes);
  });
  if (peers_) {
    for_others([&](int r) {
      if (!on_node(r)) return;
      if (!mapped(r)) {
        peers_->write(node_rank(r), mine.begin, own, mine.bytes);
      } else if (to_mapped) {
        copy_bytes(mapped(r) + mine.begin, own, mine.bytes);
      }
    });
  }
  if (stage_) {
    stage_->begin();
    copy_bytes(stage_->own_slot(), own, mine.bytes);
    stage_->publish();
    for_others([&](int r) {
      if (!on_node(r)) return;
      const Part part = part_of(r);
      copy_bytes(full + part.begin, stage_->await(node_rank(r)), part.bytes);
    });
    stage_->end();
  }
  copy_bytes(full + mine.begin, own, mine.bytes);
  finish_exchanges();
}

template <class T>
void MpiCommunicator::reduce_scatter_of(TensorView slice, TensorView full) {
  const index_t n = slice.bytes();
  for (index_t done = 0; done < n; done += piece()) {
    const index_t bytes = std::min(piece(), n - done);
    outs_.assign(1, slice.storage() + done);
    reduce_exchange<T>(full.storage(), [&](int r) { return Part{r * n + done, bytes}; });
  }
}

template <class T>
void MpiCommunicator::all_reduce_of(TensorView x) {
  std::byte* const data = x.storage();
  const index_t n = x.bytes();
  for (index_t done = 0; done < n; done += piece() * size_) {
    const index_t bytes = std::min(piece() * size_, n - done);
    const index_t each =
        divide_up(bytes / index_t{sizeof(T)}, size_) * index_t{sizeof(T)};
    const auto part_of = [&](int r) {
      const index_t begin = std::min(r * each, bytes);
      return Part{done + begin, std::min(each, bytes - begin)};
    };
    const index_t own = part_of(rank_).begin;
    // Sums go to all whose tensors are mapped while their cache lines are here.
    outs_.assign(1, data + own);
    for_others([&](int r) {
      if (mapped(r)) outs_.push_back(mapped(r) + own);
    });
    reduce_exchange<T>(data, part_of);
    gather_exchange(data, data + own, part_of, false);
  }
}

void MpiCommunicator::do_reduce_scatter(TensorView slice, TensorView full) {
  if (size_ == 1) return copy_bytes(slice.storage(), full.storage(), full.bytes());
  on_tensor(full, [&] {
    with_type(full.dtype(),
              [&]<class T>(TypeTag<T>) { reduce_scatter_of<T>(slice, full); });
  });
}

void MpiCommunicator::do_all_gather(TensorView full, TensorView slice) {
  if (size_ == 1) return copy_bytes(full.storage(), slice.storage(), full.bytes());
  on_tensor(full, [&] {
    const index_t n = slice.bytes();
    for (index_t done = 0; done < n; done += exchange_bytes_) {
      const index_t bytes = std::min(exchange_bytes_, n - done);
      gather_exchange(full.storage(), slice.storage() + done, [&](int r) {
        return Part{r * n + done, bytes};
      });
    }
  });
}

void MpiCommunicator::do_all_reduce(TensorView x) {
  if (size_ == 1) return;
  on_tensor(x, [&] {
    with_type(x.dtype(), [&]<class T>(TypeTag<T>) { all_reduce_of<T>(x); });
  });
}

}  // namespace

std::unique_ptr<Communicator> make_world_communicator(int ranks_per_node,
                                                      WithinNode within_node) {
  MPI_Comm world;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(world, ranks_per_node, within_node);
}

}  // namespace llmtrain
