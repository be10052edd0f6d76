// Collectives over MPI whose sums are taken in rank order.
//
// A tensor is cut into exchanges small enough to stay in cache. In each, a rank hands
// every other rank the piece that the other owns: by the shared stage within the node, by
// a message between nodes; the owner adds the pieces in rank order. Gathering is the
// mirror.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "mpi_check.hpp"
#include "ordered_sum.hpp"
#include "shared_stage.hpp"

namespace llmtrain {

namespace {

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
  MpiCommunicator(MPI_Comm comm, int ranks_per_node)
      : comm_(comm), ranks_per_node_(ranks_per_node) {
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
    requests_.reserve(2 * others);
  }

  ~MpiCommunicator() override {
    stage_.reset();
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
  std::vector<double> all_gather(std::span<const double> values) override;
  std::vector<std::string> all_gather(const std::string& bytes) override;
  std::string broadcast(const std::string& bytes, int root) override;
  std::unique_ptr<Communicator> split(int color) override;

 protected:
  void do_reduce_scatter(TensorView slice, TensorView full) override;
  void do_all_gather(TensorView full, TensorView slice) override;
  void do_all_reduce(TensorView x) override;

 private:
  void find_node_ranks();
  bool on_node(int r) const { return node_rank_[static_cast<std::size_t>(r)] >= 0; }
  // What an exchange moves per rank, in bytes: the pieces for all others share a slot.
  index_t piece() const {
    return SharedStage::kSlotBytes / std::max(1, size_ - 1) / kPieceMultiple *
           kPieceMultiple;
  }

  SharedStage& stage();
  void post_exchange(int other, const std::byte* send, index_t send_bytes,
                     std::byte* receive, index_t receive_bytes);
  void finish_exchanges();
  template <class T, class PartOf>
  void reduce_exchange(std::byte* out, const std::byte* full, PartOf part_of);
  template <class PartOf>
  void gather_exchange(std::byte* full, const std::byte* own, PartOf part_of);
  template <class T>
  void reduce_scatter_of(TensorView slice, TensorView full);
  template <class T>
  void all_reduce_of(TensorView x);

  static constexpr index_t kPieceMultiple = 64;

  MPI_Comm comm_, node_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, ranks_per_node_;
  std::vector<int> node_rank_;  // by rank: its rank in node_, or -1 on another node
  std::optional<SharedStage> stage_;
  // Of the current exchange; kept so that an exchange allocates nothing.
  std::vector<const std::byte*> sources_;  // by rank: its piece for this rank
  std::vector<std::byte> received_;        // pieces from other nodes
  std::vector<MPI_Request> requests_;
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

std::vector<double> MpiCommunicator::all_gather(std::span<const double> values) {
  std::vector<double> result(values.size() * static_cast<std::size_t>(size_));
  const int count = mpi_count(static_cast<index_t>(values.size()));
  mpi_check(MPI_Allgather(values.data(), count, MPI_DOUBLE, result.data(), count,
                          MPI_DOUBLE, comm_),
            "MPI_Allgather");
  return result;
}

std::vector<std::string> MpiCommunicator::all_gather(const std::string& bytes) {
  const auto n = static_cast<std::size_t>(size_);
  const int own = mpi_count(static_cast<index_t>(bytes.size()));
  std::vector<int> counts(n), offsets(n);
  mpi_check(MPI_Allgather(&own, 1, MPI_INT, counts.data(), 1, MPI_INT, comm_),
            "MPI_Allgather");
  index_t total = 0;
  for (std::size_t r = 0; r < n; ++r) {
    offsets[r] = mpi_count(total);
    total += counts[r];
  }
  std::string joined(static_cast<std::size_t>(mpi_count(total)), '\0');
  mpi_check(MPI_Allgatherv(bytes.data(), own, MPI_BYTE, joined.data(), counts.data(),
                           offsets.data(), MPI_BYTE, comm_),
            "MPI_Allgatherv");
  std::vector<std::string> result;
  for (std::size_t r = 0; r < n; ++r) {
    result.push_back(joined.substr(static_cast<std::size_t>(offsets[r]),
                                   static_cast<std::size_t>(counts[r])));
  }
  return result;
}

std::string MpiCommunicator::broadcast(const std::string& bytes, int root) {
  int count = rank_ == root ? mpi_count(static_cast<index_t>(bytes.size())) : 0;
  mpi_check(MPI_Bcast(&count, 1, MPI_INT, root, comm_), "MPI_Bcast");
  std::string result = bytes;
  result.resize(static_cast<std::size_t>(count));
  mpi_check(MPI_Bcast(result.data(), count, MPI_BYTE, root, comm_), "MPI_Bcast");
  return result;
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color) {
  MPI_Comm part;
  mpi_check(MPI_Comm_split(comm_, color, rank_, &part), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(part, ranks_per_node_);
}

SharedStage& MpiCommunicator::stage() {
  if (stage_) return *stage_;
  const bool other_nodes = std::count(node_rank_.begin(), node_rank_.end(), -1) > 0;
  if (other_nodes) received_.resize(static_cast<std::size_t>(piece() * (size_ - 1)));
  return stage_.emplace(node_);
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

// out = the sum in rank order of every rank's part_of(own rank), elements T; out may be
// that part of full.
template <class T, class PartOf>
void MpiCommunicator::reduce_exchange(std::byte* out, const std::byte* full,
                                      PartOf part_of) {
  const Part own = part_of(rank_);
  const index_t stride = piece();
  // Slot of d among the pieces that rank r hands out: r itself is left out.
  const auto slot_of = [](int d, int r) { return d < r ? d : d - 1; };
  SharedStage& shared = stage();

  shared.begin();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const Part part = part_of(r);
    if (on_node(r)) {
      copy_bytes(shared.own_slot() + slot_of(r, rank_) * stride, full + part.begin,
                 part.bytes);
      continue;
    }
    std::byte* const from = received_.data() + slot_of(r, rank_) * stride;
    sources_[static_cast<std::size_t>(r)] = from;
    post_exchange(r, full + part.begin, part.bytes, from, own.bytes);
  }
  shared.publish();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      sources_[static_cast<std::size_t>(r)] = full + own.begin;
    } else if (on_node(r)) {
      sources_[static_cast<std::size_t>(r)] =
          shared.await(node_rank_[static_cast<std::size_t>(r)]) +
          slot_of(rank_, r) * stride;
    }
  }
  finish_exchanges();
  sum_in_order(reinterpret_cast<T*>(out), sources_, own.bytes / index_t{sizeof(T)});
  shared.end();
}

// full[part_of(r)] = the `own` of rank r, for all r; own may be part_of(rank()) of full.
template <class PartOf>
void MpiCommunicator::gather_exchange(std::byte* full, const std::byte* own,
                                      PartOf part_of) {
  const Part mine = part_of(rank_);
  SharedStage& shared = stage();

  for (int r = 0; r < size_; ++r) {
    if (on_node(r)) continue;
    const Part part = part_of(r);
    post_exchange(r, own, mine.bytes, full + part.begin, part.bytes);
  }
  shared.begin();
  copy_bytes(shared.own_slot(), own, mine.bytes);
  shared.publish();
  copy_bytes(full + mine.begin, own, mine.bytes);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || !on_node(r)) continue;
    const Part part = part_of(r);
    copy_bytes(full + part.begin, shared.await(node_rank_[static_cast<std::size_t>(r)]),
               part.bytes);
  }
  shared.end();
  finish_exchanges();
}

template <class T>
void MpiCommunicator::reduce_scatter_of(TensorView slice, TensorView full) {
  const index_t n = slice.bytes();
  for (index_t done = 0; done < n; done += piece()) {
    const index_t bytes = std::min(piece(), n - done);
    reduce_exchange<T>(slice.storage() + done, full.storage(), [&](int r) {
      return Part{r * n + done, bytes};
    });
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
    std::byte* const own = data + part_of(rank_).begin;
    reduce_exchange<T>(own, data, part_of);
    gather_exchange(data, own, part_of);
  }
}

void MpiCommunicator::do_reduce_scatter(TensorView slice, TensorView full) {
  if (size_ == 1) return copy_bytes(slice.storage(), full.storage(), full.bytes());
  with_type(full.dtype(),
            [&]<class T>(TypeTag<T>) { reduce_scatter_of<T>(slice, full); });
}

void MpiCommunicator::do_all_gather(TensorView full, TensorView slice) {
  if (size_ == 1) return copy_bytes(full.storage(), slice.storage(), full.bytes());
  const index_t n = slice.bytes();
  for (index_t done = 0; done < n; done += SharedStage::kSlotBytes) {
    const index_t bytes = std::min(SharedStage::kSlotBytes, n - done);
    gather_exchange(full.storage(), slice.storage() + done, [&](int r) {
      return Part{r * n + done, bytes};
    });
  }
}

void MpiCommunicator::do_all_reduce(TensorView x) {
  if (size_ == 1) return;
  with_type(x.dtype(), [&]<class T>(TypeTag<T>) { all_reduce_of<T>(x); });
}

}  // namespace

std::unique_ptr<Communicator> make_world_communicator(int ranks_per_node) {
  MPI_Comm world;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(world, ranks_per_node);
}

}  // namespace llmtrain
