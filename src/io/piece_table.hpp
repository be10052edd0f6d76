// Where every element of a checkpoint lies: the table that index.h5 holds and that loading
// works from.
#pragma once

#include <string>
#include <vector>

#include "io/region.hpp"

namespace llmtrain::io {

// A region of a tensor in the dataset /<kind>/<tensor> of a shard: its elements follow each
// other from `position` on.
struct StoredPiece {
  std::string tensor;
  TensorKind kind;
  int shard = 0;  // the rank that wrote it
  Region region;
  index_t position = 0;
};

class PieceTable {
 public:
  PieceTable() = default;
  // Sorts. `shards`: ranks of the run that saved, which the names of the files carry.
  PieceTable(int shards, std::vector<StoredPiece> pieces);

  int shards() const { return shards_; }
  // By kind, tensor, and first element.
  const std::vector<StoredPiece>& pieces() const { return pieces_; }

  // Pieces of one tensor: neighbours in pieces().
  struct Tensor {
    std::size_t first, count;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const StoredPiece& front(const Tensor& tensor) const { return pieces_[tensor.first]; }
  std::span<const StoredPiece> pieces(const Tensor& tensor) const {
    return {pieces_.data() + tensor.first, tensor.count};
  }
  // Index into tensors(), or -1.
  int find(TensorKind kind, const std::string& tensor) const;

  // What is wrong: names, regions, shapes that disagree, an element that no piece or more
  // than one holds. Empty when every element of every tensor is held exactly once.
  std::string fault() const;

  std::string to_bytes() const;
  static PieceTable from_bytes(const std::string& bytes);

 private:
  std::string fault(const Tensor& tensor) const;

  int shards_ = 0;
  std::vector<StoredPiece> pieces_;
  std::vector<Tensor> tensors_;
};

// "shard-00003-of-00008.h5"
std::string shard_name(int shard, int shards);

// The path of a dataset in a shard and of the whole tensor in index.h5:
// "/exp_avg/blocks/003/attention/q/weight".
std::string dataset_path(TensorKind kind, const std::string& tensor);

// Whether `name` can be a path in a file: parts of letters, digits, '_', '-', '.',
// separated by '/', none of which is "." or "..".
bool is_tensor_name(const std::string& name);

// The pieces of one rank in the order and at the places in which its shard holds them.
// Empty pieces are left out.
std::vector<StoredPiece> stored_pieces(const std::vector<Piece>& owned, int shard);

inline constexpr TensorKind kTensorKinds[] = {TensorKind::weight, TensorKind::exp_avg,
                                              TensorKind::exp_avg_sq};

}  // namespace llmtrain::io
