// The process grid: who computes what. Ranks are numbered with tensor varying fastest,
// then context, pipeline, data, so that a tensor group sits on adjacent ranks (one node).
#pragma once

#include <array>
#include <memory>
#include <string>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/config/config.hpp"

namespace llmtrain {

enum class Axis { data, pipeline, context, tensor };
constexpr int kAxes = 4;
const char* name(Axis axis);

// How many ranks each axis has.
struct GridShape {
  std::array<int, kAxes> sizes{1, 1, 1, 1};
  int& operator[](Axis axis) { return sizes[static_cast<std::size_t>(axis)]; }
  int operator[](Axis axis) const { return sizes[static_cast<std::size_t>(axis)]; }
  int ranks() const;
  // "data 4 x pipeline 1 x context 1 x tensor 2"
  std::string text() const;
};

// The shape that the input asks for; `data` is what the other axes leave unless it is given.
// ProcessGrid refuses it when the product is not `ranks`.
GridShape grid_shape(const ParallelConfig& config, int ranks);

// Coordinates and communicators of this rank.
class ProcessGrid {
 public:
  // Collective over `world`, which must outlive the grid. Throws Error(usage) naming
  // every factor when the product of the sizes is not the number of ranks.
  ProcessGrid(Communicator& world, const GridShape& shape);
  // Pretends to be rank `rank` of a job of that shape, for the meta device.
  ProcessGrid(const GridShape& shape, int rank);

  const GridShape& shape() const { return shape_; }
  // This rank has the losses and tokens of its samples; others that work on the same ones
  // only help.
  bool counts_samples() const {
    return coordinate(Axis::tensor) == 0 &&
           coordinate(Axis::pipeline) + 1 == shape_[Axis::pipeline];
  }
  // The rank at the end of the pipeline that rank 0 begins.
  int last_of_pipeline() const;
  // This rank's coordinate.
  int coordinate(Axis axis) const;
  // All ranks: loss, norm, stop decisions, checkpoints.
  Communicator& world() { return *world_; }
  // The ranks that differ from this one only in `axis`. data: gradients, ZeRO shards.
  Communicator& along(Axis axis) { return *along_[static_cast<std::size_t>(axis)]; }

 private:
  std::unique_ptr<Communicator> pretended_;
  Communicator* world_;
  GridShape shape_;
  std::array<std::unique_ptr<Communicator>, kAxes> along_;
};

}  // namespace llmtrain
