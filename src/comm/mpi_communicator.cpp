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
#include "shared_stage.hpp"

namespace llmtrain {

namespace {

// Where rank r's part of an exchange lies in the full tensor.
struct Part {
  index_t begin, count;
};

// sources[0] + sources[1] + ... element by element, in that order. A group of elements stays in
// registers while the sources pass by.
void sum_in_order(float* out, const std::vector<const float*>& sources, index_t count) {
  constexpr index_t kGroup = 64;
  index_t begin = 0;
  for (; begin + kGroup <= count; begin += kGroup) {
    float sums[kGroup];
    std::copy_n(sources[0] + begin, kGroup, sums);
    for (std::size_t source = 1; source < sources.size(); ++source) {
      const float* const x = sources[source] + begin;
      for (index_t i = 0; i < kGroup; ++i) sums[i] += x[i];
    }
    std::copy_n(sums, kGroup, out + begin);
  }
  for (; begin < count; ++begin) {
    float sum = sources[0][begin];
    for (std::size_t source = 1; source < sources.size(); ++source) {
      sum += sources[source][begin];
    }
    out[begin] = sum;
  }
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
  SharedStage& stage() {
    if (!stage_) stage_.emplace(node_);
    return *stage_;
  }
  // What an exchange moves per rank: the pieces for all others share a slot.
  index_t piece() const { return SharedStage::kSlotFloats / std::max(1, size_ - 1); }

  template <class PartOf>
  void reduce_exchange(float* out, const float* full, PartOf part_of);
  template <class PartOf>
  void gather_exchange(float* full, const float* own, PartOf part_of);

  MPI_Comm comm_, node_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, ranks_per_node_;
  std::vector<int> node_rank_;  // by rank: its rank in node_, or -1 on another node
  std::optional<SharedStage> stage_;
  std::vector<float> received_;  // pieces from other nodes
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

// out = the sum in rank order of every rank's part_of(own rank); out may be that part of
// full.
template <class PartOf>
void MpiCommunicator::reduce_exchange(float* out, const float* full, PartOf part_of) {
  const Part own = part_of(rank_);
  const index_t stride = piece();
  // Slot of d among the pieces that rank r hands out: r itself is left out.
  const auto slot_of = [](int d, int r) { return d < r ? d : d - 1; };
  received_.resize(static_cast<std::size_t>(stride * (size_ - 1)));
  std::vector<MPI_Request> requests;
  std::vector<const float*> sources(static_cast<std::size_t>(size_));
  SharedStage& shared = stage();

  shared.begin();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const Part part = part_of(r);
    if (on_node(r)) {
      std::memcpy(shared.own_slot() + slot_of(r, rank_) * stride, full + part.begin,
                  static_cast<std::size_t>(part.count) * sizeof(float));
      continue;
    }
    float* const from = received_.data() + slot_of(r, rank_) * stride;
    sources[static_cast<std::size_t>(r)] = from;
    mpi_check(MPI_Irecv(from, mpi_count(own.count), MPI_FLOAT, r, 0, comm_,
                        &requests.emplace_back()),
              "MPI_Irecv");
    mpi_check(MPI_Isend(full + part.begin, mpi_count(part.count), MPI_FLOAT, r, 0, comm_,
                        &requests.emplace_back()),
              "MPI_Isend");
  }
  shared.publish();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      sources[static_cast<std::size_t>(r)] = full + own.begin;
    } else if (on_node(r)) {
      sources[static_cast<std::size_t>(r)] =
          shared.await(node_rank_[static_cast<std::size_t>(r)]) +
          slot_of(rank_, r) * stride;
    }
  }
  mpi_check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(),
                        MPI_STATUSES_IGNORE),
            "MPI_Waitall");
  sum_in_order(out, sources, own.count);
  shared.end();
}

// full[part_of(r)] = the `own` of rank r, for all r; own may be part_of(rank()) of full.
template <class PartOf>
void MpiCommunicator::gather_exchange(float* full, const float* own, PartOf part_of) {
  const Part mine = part_of(rank_);
  const auto mine_bytes = static_cast<std::size_t>(mine.count) * sizeof(float);
  std::vector<MPI_Request> requests;
  SharedStage& shared = stage();

  for (int r = 0; r < size_; ++r) {
    if (on_node(r)) continue;
    const Part part = part_of(r);
    mpi_check(MPI_Irecv(full + part.begin, mpi_count(part.count), MPI_FLOAT, r, 0, comm_,
                        &requests.emplace_back()),
              "MPI_Irecv");
    mpi_check(MPI_Isend(own, mpi_count(mine.count), MPI_FLOAT, r, 0, comm_,
                        &requests.emplace_back()),
              "MPI_Isend");
  }
  shared.begin();
  std::memcpy(shared.own_slot(), own, mine_bytes);
  shared.publish();
  if (own != full + mine.begin) std::memcpy(full + mine.begin, own, mine_bytes);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || !on_node(r)) continue;
    const Part part = part_of(r);
    std::memcpy(full + part.begin, shared.await(node_rank_[static_cast<std::size_t>(r)]),
                static_cast<std::size_t>(part.count) * sizeof(float));
  }
  shared.end();
  mpi_check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(),
                        MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

void MpiCommunicator::do_reduce_scatter(TensorView slice, TensorView full) {
  const index_t n = slice.count();
  float* const out = slice.data<float>();
  const float* const in = full.data<float>();
  if (size_ == 1) {
    if (out != in) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  for (index_t done = 0; done < n; done += piece()) {
    const index_t count = std::min(piece(), n - done);
    reduce_exchange(out + done, in, [&](int r) { return Part{r * n + done, count}; });
  }
}

void MpiCommunicator::do_all_gather(TensorView full, TensorView slice) {
  const index_t n = slice.count();
  float* const out = full.data<float>();
  const float* const in = slice.data<float>();
  if (size_ == 1) {
    if (out != in) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  for (index_t done = 0; done < n; done += SharedStage::kSlotFloats) {
    const index_t count = std::min(SharedStage::kSlotFloats, n - done);
    gather_exchange(out, in + done, [&](int r) { return Part{r * n + done, count}; });
  }
}

void MpiCommunicator::do_all_reduce(TensorView x) {
  if (size_ == 1) return;
  const index_t n = x.count();
  float* const data = x.data<float>();
  for (index_t done = 0; done < n; done += piece() * size_) {
    const index_t count = std::min(piece() * size_, n - done);
    const index_t each = divide_up(count, size_);
    const auto part_of = [&](int r) {
      const index_t begin = std::min(r * each, count);
      return Part{done + begin, std::min(each, count - begin)};
    };
    float* const own = data + part_of(rank_).begin;
    reduce_exchange(own, data, part_of);
    gather_exchange(data, own, part_of);
  }
}

}  // namespace

std::unique_ptr<Communicator> make_world_communicator(int ranks_per_node) {
  MPI_Comm world;
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(world, ranks_per_node);
}

}  // namespace llmtrain
