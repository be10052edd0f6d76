// What several ranks write, in every layout, other programs read as whole tensors; and our
// own check finds nothing to say.
#include <gtest/gtest.h>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "llmtrain/io/inspect.hpp"
#include "unit/io/other_readers.hpp"

namespace llmtrain::io {
namespace {

TEST(CheckpointView, OtherProgramsReadWholeTensors) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  Log log(false);
  for (const Layout& layout : layouts_of(world->size())) {
    SCOPED_TRACE(cat("data ", layout.data, " tensor ", layout.tensor));
    const std::string directory = cat(folder.path(), "/tensor", layout.tensor);
    CheckpointStore store(*world, directory, {}, log);
    Held held = cut(layout, world->rank(), Replicas::once);
    fill(held, 7);
    const SaveReport report =
        store.save(held.pieces, synthetic_progress(7), synthetic_provenance());
    EXPECT_TRUE(report.saved) << report.fault;
    if (world->rank() == 0 && report.saved) {
      expect_h5dump_reads(report.path, folder.path());
      expect_h5py_reads(report.path, folder.path());
      const Verification verification = verify_checkpoint(report.path);
      EXPECT_EQ(verification.faults, std::vector<std::string>{});
      EXPECT_EQ(verification.elements, 2952);
    }
    world->barrier();
  }
}

// The view of a checkpoint without one of its shards shows NaN and nothing else: it is for
// people, and says nothing about completeness.
TEST(CheckpointView, MissingShardShowsNan) {
  const auto world = make_world_communicator();
  const SharedFolder folder(*world);
  Log log(false);
  CheckpointStore store(*world, folder.path(), {}, log);
  Held held = cut({world->size(), 1}, world->rank(), Replicas::once);
  fill(held, 7);
  const SaveReport report = store.save(held.pieces, synthetic_progress(7), {});
  EXPECT_TRUE(report.saved) << report.fault;
  if (world->rank() == 0) {
    std::filesystem::remove(report.path + "/" + shard_name(0, world->size()));
    const std::string raw = folder.path() + "/raw";
    EXPECT_EQ(run("h5dump -d /weight/embedding/tokens/weight -b LE -o " + raw + " " +
                      report.path + "/index.h5",
                  folder.path() + "/output"),
              0);
    const std::string bytes = contents(raw);
    float first = 0;
    std::memcpy(&first, bytes.data(), std::min(bytes.size(), sizeof first));
    EXPECT_TRUE(first != first);
  }
}

}  // namespace
}  // namespace llmtrain::io
