// Tensors whose every element is known from its name and index, cut into pieces as ZeRO
// and tensor parallelism cut them: what the tests of checkpoints save and expect.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "io/piece_table.hpp"
#include "io/region.hpp"
#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/io/state.hpp"

namespace llmtrain::io {

struct SyntheticTensor {
  std::string name;
  Shape shape;
};

// Sizes that divide by nothing, one to four dimensions, one element.
inline std::vector<SyntheticTensor> synthetic_tensors() {
  return {
      {"embedding/tokens/weight", {37, 12}}, {"blocks/000/attention/q/weight", {12, 12}},
      {"blocks/000/attention/q/bias", {12}}, {"blocks/000/mlp/up/weight", {5, 29}},
      {"blocks/001/norm/weight", {13}},      {"cube/weight", {3, 5, 7}},
      {"four/weight", {2, 3, 4, 5}},         {"one/weight", {1}}};
}

// Element i (row-major) of a tensor: any finite bit pattern, with zeros of both signs.
inline float synthetic_value(TensorKind kind, const std::string& name, index_t i,
                             std::int64_t step) {
  std::uint64_t x = std::hash<std::string>{}(name) + static_cast<std::uint64_t>(kind) +
                    static_cast<std::uint64_t>(step) * 0x632BE59BD9B4E019u +
                    static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15u;
  x ^= x >> 29, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 32;
  auto bits = static_cast<std::uint32_t>(x);
  if ((bits & 0x7F800000u) == 0x7F800000u) bits &= 0x80000000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Ranks as data x tensor, tensor fastest: matrices are cut into columns, and what a rank
// of the tensor axis holds is cut into equal flat slices over the data axis.
struct Layout {
  int data = 1, tensor = 1;
  int size() const { return data * tensor; }
};

inline std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> layouts;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor == 0) layouts.push_back({ranks / tensor, tensor});
  }
  return layouts;
}

// Pieces with their memory.
struct Held {
  std::vector<Piece> pieces;
  std::deque<std::vector<float>> memory;

  void add(const SyntheticTensor& tensor, TensorKind kind, const Box& box, index_t begin,
           index_t count) {
    memory.emplace_back(static_cast<std::size_t>(count), -1.0f);
    pieces.push_back({tensor.name, kind, tensor.shape, box, begin,
                      TensorView(memory.back().data(), Dtype::f32, Shape{count})});
  }
};

inline Box box_of(const SyntheticTensor& tensor, int part, int parts) {
  Shape origin = tensor.shape;
  if (tensor.shape.rank() == 1) origin = {0};
  if (tensor.shape.rank() == 3) origin = {0, 0, 0};
  if (tensor.shape.rank() == 4) origin = {0, 0, 0, 0};
  if (tensor.shape.rank() != 2) return {origin, tensor.shape};
  const index_t columns = tensor.shape[1];
  const index_t begin = columns * part / parts, end = columns * (part + 1) / parts;
  return {{0, begin}, {tensor.shape[0], end - begin}};
}

enum class Replicas { once, all };  // who holds what tensor parallelism does not cut

// What `rank` holds of a unit of all tensors; slices are multiples of 8 elements, so that
// the last ranks may hold nothing.
inline Held cut(const Layout& layout, int rank, Replicas replicas) {
  const int column = rank % layout.tensor, slice = rank / layout.tensor;
  const auto tensors = synthetic_tensors();
  const auto held = [&](const SyntheticTensor& tensor) {
    return tensor.shape.rank() == 2 || column == 0 || replicas == Replicas::all;
  };
  index_t total = 0;
  for (const auto& tensor : tensors) {
    if (held(tensor)) total += box_of(tensor, column, layout.tensor).extent.count();
  }
  const index_t size = round_up(divide_up(total, layout.data), 8);
  const index_t first = size * slice, last = std::min(total, first + size);
  Held result;
  for (const TensorKind kind : kTensorKinds) {
    index_t offset = 0;
    for (const auto& tensor : tensors) {
      if (!held(tensor)) continue;
      const Box box = box_of(tensor, column, layout.tensor);
      const index_t begin = std::max(first, offset) - offset;
      const index_t end = std::min(last, offset + box.extent.count()) - offset;
      if (begin < end) result.add(tensor, kind, box, begin, end - begin);
      offset += box.extent.count();
    }
  }
  return result;
}

// The row-major index of element `local` of a piece, by the definition of a box.
inline index_t global_index(const Piece& piece, index_t local) {
  index_t rest = piece.begin + local, index = 0, stride = 1;
  for (int dim = piece.global.rank() - 1; dim >= 0; --dim) {
    index += (piece.box.offset[dim] + rest % piece.box.extent[dim]) * stride;
    rest /= piece.box.extent[dim];
    stride *= piece.global[dim];
  }
  return index;
}

inline void fill(Held& held, std::int64_t step) {
  for (Piece& piece : held.pieces) {
    for (index_t i = 0; i < piece.data.count(); ++i) {
      piece.data.data<float>()[i] =
          synthetic_value(piece.kind, piece.name, global_index(piece, i), step);
    }
  }
}

// Elements that are not bit for bit what fill() would write.
inline index_t wrong_elements(const Held& held, std::int64_t step) {
  index_t wrong = 0;
  for (const Piece& piece : held.pieces) {
    for (index_t i = 0; i < piece.data.count(); ++i) {
      const float expected =
          synthetic_value(piece.kind, piece.name, global_index(piece, i), step);
      wrong += std::memcmp(&expected, piece.data.data<float>() + i, sizeof expected) != 0;
    }
  }
  return wrong;
}

inline Progress synthetic_progress(std::int64_t step) {
  Progress progress;
  progress.step = step;
  progress.applied_steps = step - 1;
  progress.samples = step * 24;
  progress.epoch_size = 1001;
  progress.tokens = step * 24 * 16;
  progress.last_loss = 1.0 / 3.0 + 1e-17 * static_cast<double>(step);
  progress.best_validation_loss = 0x1.921fb54442d18p+1;
  progress.best_validation_step = step / 2;
  progress.seed = 0xFEDCBA9876543210u;
  progress.data_fingerprint = "a3 bytes of \"things\"";
  return progress;
}

inline Provenance synthetic_provenance() {
  return {"[run]\nseed = 1\n", "data 2, zero 1", "0.1.0", "node07", ""};
}

// A new folder below the temporary one, the same on all ranks; removed by rank 0 at the
// end. Collective.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& world) : world_(world) {
    std::string path = std::filesystem::temp_directory_path() / "checkpoint_test.XXXXXX";
    if (world.rank() == 0 && ::mkdtemp(path.data()) == nullptr) {
      fail(Status::io, path, ": cannot be made");
    }
    path_ = world.broadcast(path, 0);
  }
  ~SharedFolder() {
    world_.barrier();
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  Communicator& world_;
  std::string path_;
};

}  // namespace llmtrain::io
