// A checkpoint written by any layout loads in any other: all pairs of rank counts up to the
// size of the world, all data x tensor grids of each, elements equal bit for bit.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {
namespace {

// The first `ranks` ranks of the world, for each count; others hold a group unused.
std::map<int, std::unique_ptr<Communicator>> groups_of(Communicator& world) {
  std::map<int, std::unique_ptr<Communicator>> groups;
  for (int ranks = 1; ranks <= world.size(); ++ranks) {
    groups[ranks] = world.split(world.rank() < ranks ? 0 : 1);
  }
  return groups;
}

std::string folder_of(const std::string& parent, const Layout& layout) {
  return cat(parent, "/data", layout.data, "-tensor", layout.tensor);
}

TEST(CheckpointReshard, EveryLayoutLoadsInEveryOther) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  const auto groups = groups_of(*world);
  Log log(false);
  std::vector<Layout> layouts;
  for (int ranks = 1; ranks <= world->size(); ++ranks) {
    for (const Layout& layout : layouts_of(ranks)) layouts.push_back(layout);
  }
  for (const Layout& layout : layouts) {
    if (world->rank() >= layout.size()) continue;
    Communicator& group = *groups.at(layout.size());
    CheckpointStore store(group, folder_of(folder.path(), layout), {}, log);
    Held held = cut(layout, group.rank(), Replicas::once);
    fill(held, 7);
    const SaveReport report =
        store.save(held.pieces, synthetic_progress(7), synthetic_provenance());
    EXPECT_TRUE(report.saved) << report.fault;
    EXPECT_GT(report.bytes, 0);
  }
  world->barrier();

  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      if (world->rank() >= to.size()) continue;
      SCOPED_TRACE(cat("data ", from.data, " tensor ", from.tensor, " in data ", to.data,
                       " tensor ", to.tensor));
      Communicator& group = *groups.at(to.size());
      CheckpointConfig config;
      config.verify = VerifyMode::sizes;
      CheckpointStore store(group, folder_of(folder.path(), from), config, log);
      const auto path = store.find();
      EXPECT_TRUE(path.has_value());
      if (!path) continue;  // on all ranks alike
      EXPECT_TRUE(store.read_progress(*path) == synthetic_progress(7));
      Held held = cut(to, group.rank(), Replicas::all);
      EXPECT_NO_THROW(store.load(*path, held.pieces));
      EXPECT_EQ(wrong_elements(held, 7), 0);
    }
  }
}

// One rank owns the middle rows of a matrix twice cut; others the rest: pieces of one
// tensor that share a dataset.
TEST(CheckpointReshard, SeveralPiecesOfATensorOnARank) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  Log log(false);
  CheckpointStore store(*world, folder.path(), {}, log);
  const SyntheticTensor tensor{"embedding/tokens/weight", {41, 6}};
  Held held;
  for (index_t row = world->rank(); row < 41; row += world->size()) {
    held.add(tensor, TensorKind::weight, {{row, 0}, {1, 6}}, 0, 4);
    held.add(tensor, TensorKind::weight, {{row, 0}, {1, 6}}, 4, 2);
  }
  fill(held, 3);
  const SaveReport report = store.save(held.pieces, synthetic_progress(3), {});
  EXPECT_TRUE(report.saved) << report.fault;
  Held whole;
  whole.add(tensor, TensorKind::weight, {{0, 0}, {41, 6}}, 0, 41 * 6);
  store.load(report.path, whole.pieces);
  EXPECT_EQ(wrong_elements(whole, 3), 0);
}

TEST(CheckpointReshard, PiecesThatDoNotFitAreABug) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  Log log(false);
  CheckpointStore store(*world, folder.path(), {}, log);
  const SyntheticTensor tensor{"a/weight", {8}};
  Held twice, hole;
  twice.add(tensor, TensorKind::weight, {{0}, {8}}, 0, world->rank() == 0 ? 8 : 1);
  hole.add(tensor, TensorKind::weight, {{0}, {8}}, 1, world->rank() == 0 ? 7 : 0);
  EXPECT_THROW(store.save(hole.pieces, synthetic_progress(1), {}), Error);
  if (world->size() > 1) {
    EXPECT_THROW(store.save(twice.pieces, synthetic_progress(1), {}), Error);
  }
  world->barrier();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace llmtrain::io
