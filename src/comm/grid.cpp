#include "llmtrain/comm/grid.hpp"

namespace llmtrain {

namespace {

// The distance in ranks between neighbours of an axis.
int stride(const GridShape& shape, Axis axis) {
  int product = 1;
  for (int later = static_cast<int>(axis) + 1; later < kAxes; ++later) {
    product *= shape.sizes[static_cast<std::size_t>(later)];
  }
  return product;
}

}  // namespace

const char* name(Axis axis) {
  switch (axis) {
    case Axis::data:
      return "data";
    case Axis::pipeline:
      return "pipeline";
    case Axis::context:
      return "context";
    case Axis::tensor:
      return "tensor";
  }
  return "?";
}

int GridShape::ranks() const {
  int product = 1;
  for (const int size : sizes) product *= size;
  return product;
}

std::string GridShape::text() const {
  std::string text;
  for (int axis = 0; axis < kAxes; ++axis) {
    text += cat(axis ? " x " : "", name(static_cast<Axis>(axis)), " ",
                sizes[static_cast<std::size_t>(axis)]);
  }
  return text;
}

GridShape grid_shape(const ParallelConfig& config, int ranks) {
  GridShape shape;
  shape[Axis::tensor] = static_cast<int>(config.tensor);
  shape[Axis::pipeline] = static_cast<int>(config.pipeline);
  const int others = shape.ranks();
  shape[Axis::data] = config.data > 0 ? static_cast<int>(config.data) : ranks / others;
  return shape;
}

ProcessGrid::ProcessGrid(Communicator& world, const GridShape& shape)
    : world_(&world), shape_(shape) {
  if (shape.ranks() != world.size()) {
    fail(Status::usage, "the layout ", shape.text(), " needs ", shape.ranks(),
         " ranks, but the job has ", world.size());
  }
  for (int axis = 0; axis < kAxes; ++axis) {
    const auto a = static_cast<Axis>(axis);
    // All ranks with the same other coordinates give the same color.
    const int color = world.rank() - coordinate(a) * stride(shape, a);
    along_[static_cast<std::size_t>(axis)] = world.split(color);
  }
}

ProcessGrid::ProcessGrid(const GridShape& shape, int rank)
    : pretended_(make_counting_communicator(rank, shape.ranks())),
      world_(pretended_.get()),
      shape_(shape) {
  for (int axis = 0; axis < kAxes; ++axis) {
    const auto a = static_cast<Axis>(axis);
    along_[static_cast<std::size_t>(axis)] =
        make_counting_communicator(coordinate(a), shape[a]);
  }
}

int ProcessGrid::last_of_pipeline() const {
  return (shape_[Axis::pipeline] - 1) * stride(shape_, Axis::pipeline);
}

int ProcessGrid::coordinate(Axis axis) const {
  return world_->rank() / stride(shape_, axis) % shape_[axis];
}

}  // namespace llmtrain
