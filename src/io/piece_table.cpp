#include "io/piece_table.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "io/bytes.hpp"

namespace llmtrain::io {

namespace {

constexpr std::size_t kMaxName = 255;

void put(ByteWriter& out, const Shape& shape) {
  out.put(shape.rank());
  for (int dim = 0; dim < shape.rank(); ++dim) out.put(shape[dim]);
}

Shape get_shape(ByteReader& in) {
  std::array<index_t, Shape::kMaxRank> extents{};
  const int rank = in.get<int>();
  require(rank >= 0 && rank <= Shape::kMaxRank, "a shape of rank ", rank);
  for (int dim = 0; dim < rank; ++dim)
    extents[static_cast<std::size_t>(dim)] = in.get<index_t>();
  return make_shape({extents.data(), static_cast<std::size_t>(rank)});
}

}  // namespace

const char* name(TensorKind kind) {
  switch (kind) {
    case TensorKind::weight:
      return "weight";
    case TensorKind::exp_avg:
      return "exp_avg";
    case TensorKind::exp_avg_sq:
      return "exp_avg_sq";
  }
  return "?";
}

PieceTable::PieceTable(int shards, std::vector<StoredPiece> pieces)
    : shards_(shards), pieces_(std::move(pieces)) {
  // A region that is not valid has no first element; fault() names it later.
  std::vector<std::pair<index_t, std::size_t>> order;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Region& region = pieces_[i].region;
    order.emplace_back(fault_of(region).empty() ? first_index(region) : 0, i);
  }
  const auto key = [&](const std::pair<index_t, std::size_t>& at) {
    const StoredPiece& piece = pieces_[at.second];
    return std::tie(piece.kind, piece.tensor, at.first, piece.shard, piece.position);
  };
  std::sort(order.begin(), order.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  std::vector<StoredPiece> sorted;
  for (const auto& at : order) sorted.push_back(std::move(pieces_[at.second]));
  pieces_ = std::move(sorted);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const bool starts = i == 0 || pieces_[i].kind != pieces_[i - 1].kind ||
                        pieces_[i].tensor != pieces_[i - 1].tensor;
    if (starts) tensors_.push_back({i, 0});
    ++tensors_.back().count;
  }
}

int PieceTable::find(TensorKind kind, const std::string& tensor) const {
  const auto before = [&](const Tensor& entry, int) {
    const StoredPiece& piece = front(entry);
    return std::tie(piece.kind, piece.tensor) < std::tie(kind, tensor);
  };
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), 0, before);
  if (at == tensors_.end() || front(*at).kind != kind || front(*at).tensor != tensor) {
    return -1;
  }
  return static_cast<int>(at - tensors_.begin());
}

std::string PieceTable::fault() const {
  for (const Tensor& tensor : tensors_) {
    const std::string found = fault(tensor);
    if (!found.empty()) {
      return dataset_path(front(tensor).kind, front(tensor).tensor) + ": " + found;
    }
  }
  return "";
}

std::string PieceTable::fault(const Tensor& tensor) const {
  const std::span<const StoredPiece> held = pieces(tensor);
  if (!is_tensor_name(held[0].tensor)) return "is not a tensor's name";
  const Shape& global = held[0].region.global;
  index_t count = 0;
  for (const StoredPiece& piece : held) {
    if (piece.shard < 0 || piece.shard >= shards_ || piece.position < 0) {
      return cat("lies in shard ", piece.shard, " of ", shards_, " at element ",
                 piece.position);
    }
    const std::string found = fault_of(piece.region);
    if (!found.empty()) return found;
    if (!(piece.region.global == global)) {
      return cat("has the shapes ", global.text(), " and ", piece.region.global.text());
    }
    count += piece.region.count();
  }
  // Pieces are in order of their first elements, so only those that start before the end
  // of the earlier ones can meet them.
  std::vector<const StoredPiece*> open;
  for (const StoredPiece& piece : held) {
    const index_t start = first_index(piece.region);
    std::erase_if(open, [&](const StoredPiece* earlier) {
      return last_index(earlier->region) <= start;
    });
    for (const StoredPiece* earlier : open) {
      if (overlap(earlier->region, piece.region)) {
        return cat("elements are held twice, by ", shard_name(earlier->shard, shards_),
                   " and ", shard_name(piece.shard, shards_));
      }
    }
    open.push_back(&piece);
  }
  if (count != global.count()) {
    return cat("only ", count, " of ", global.count(), " elements are there");
  }
  return "";
}

std::string PieceTable::to_bytes() const {
  ByteWriter out;
  out.put(shards_);
  for (const StoredPiece& piece : pieces_) {
    out.put(piece.tensor);
    out.put(static_cast<int>(piece.kind));
    out.put(piece.shard);
    put(out, piece.region.global);
    put(out, piece.region.box.offset);
    put(out, piece.region.box.extent);
    out.put(piece.region.begin);
    out.put(piece.region.end);
    out.put(piece.position);
  }
  return out.take();
}

PieceTable PieceTable::from_bytes(const std::string& bytes) {
  ByteReader in(bytes);
  const int shards = in.get<int>();
  std::vector<StoredPiece> pieces;
  while (!in.done()) {
    StoredPiece piece;
    piece.tensor = in.get_text();
    piece.kind = static_cast<TensorKind>(in.get<int>());
    piece.shard = in.get<int>();
    piece.region.global = get_shape(in);
    piece.region.box.offset = get_shape(in);
    piece.region.box.extent = get_shape(in);
    piece.region.begin = in.get<index_t>();
    piece.region.end = in.get<index_t>();
    piece.position = in.get<index_t>();
    pieces.push_back(std::move(piece));
  }
  return {shards, std::move(pieces)};
}

std::string shard_name(int shard, int shards) {
  char text[64];
  std::snprintf(text, sizeof text, "shard-%05d-of-%05d.h5", shard, shards);
  return text;
}

std::string dataset_path(TensorKind kind, const std::string& tensor) {
  return cat('/', name(kind), '/', tensor);
}

bool is_tensor_name(const std::string& text) {
  if (text.empty() || text.size() > kMaxName) return false;
  std::string part;
  for (const char c : text + '/') {
    if (c == '/') {
      if (part.empty() || part == "." || part == "..") return false;
      part.clear();
    } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.') {
      part += c;
    } else {
      return false;
    }
  }
  return true;
}

std::vector<StoredPiece> stored_pieces(const std::vector<Piece>& owned, int shard) {
  std::vector<StoredPiece> stored;
  std::map<std::pair<TensorKind, std::string>, index_t> held;
  for (const Piece& piece : owned) {
    if (piece.data.count() == 0) continue;
    const Region region = region_of(piece);
    const std::string fault = fault_of(region);
    require(fault.empty(), "piece of ", piece.name, ": ", fault);
    index_t& position = held[{piece.kind, piece.name}];
    stored.push_back({piece.name, piece.kind, shard, region, position});
    position += region.count();
  }
  return stored;
}

}  // namespace llmtrain::io
