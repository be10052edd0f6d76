// What can happen to files between two runs: each damage is named with its file, and the
// checkpoint before is taken; what only looks right by size is refused when it is read.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "io/manifest.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {
namespace {

namespace fs = std::filesystem;

struct Damage {
  const char* what;
  std::function<void(const fs::path& directory)> apply;
  const char* fault;  // a part of the warning
  const char* sizes;  // of load() when only sizes are verified; nullptr: find() sees it
};

const char* const kStep = "step-0000000020";
const char* const kBefore = "step-0000000010";

std::string shard(int number, int size) { return shard_name(number, size); }

void flip(const fs::path& path, index_t from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const index_t at = static_cast<index_t>(fs::file_size(path)) - from_end;
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

// A bit of the first element that shard `number` of step 20 holds.
void flip_element(const fs::path& path, int number, int size) {
  Held held = cut({size, 1}, number, Replicas::once);
  fill(held, 20);
  const std::string bytes(reinterpret_cast<const char*>(held.memory[0].data()), 16);
  std::ifstream file(path, std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  flip(path, static_cast<index_t>(all.size() - all.find(bytes)));
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void replace_copy(const fs::path& from, const fs::path& to) {
  fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

std::vector<Damage> damages(int size) {
  const std::string first = shard(0, size), second = shard(1, size);
  return {
      {"shard cut",
       [=](const fs::path& d) {
         const fs::path path = d / kStep / first;
         fs::resize_file(path, fs::file_size(path) - 1);
       },
       "bytes, MANIFEST says", nullptr},
      {"shard grown",
       [=](const fs::path& d) {
         const fs::path path = d / kStep / first;
         fs::resize_file(path, fs::file_size(path) + 1);
       },
       "bytes, MANIFEST says", nullptr},
      {"bit in the elements",
       [=](const fs::path& d) { flip_element(d / kStep / second, 1, size); },
       "digest differs", ""},
      {"bit in the index", [=](const fs::path& d) { flip(d / kStep / kIndexName, 100); },
       "index.h5: its digest differs", "differs from what MANIFEST says"},
      {"shard gone", [=](const fs::path& d) { fs::remove(d / kStep / second); },
       "cannot open: No such file", nullptr},
      {"index gone", [=](const fs::path& d) { fs::remove(d / kStep / kIndexName); },
       "index.h5: cannot open: No such file", nullptr},
      {"shards exchanged",
       [=](const fs::path& d) {
         fs::rename(d / kStep / first, d / "held");
         fs::rename(d / kStep / second, d / kStep / first);
         fs::rename(d / "held", d / kStep / second);
       },
       "shard-", nullptr},
      {"shard of another step",
       [=](const fs::path& d) { replace_copy(d / kBefore / first, d / kStep / first); },
       "digest differs", "is of step 10, not 20"},
      {"shard is a link elsewhere",
       [=](const fs::path& d) {
         fs::rename(d / kStep / first, d / "held");
         fs::create_symlink(d / "held", d / kStep / first);
       },
       "cannot open: Too many levels of symbolic links", nullptr},
      {"manifest gone", [=](const fs::path& d) { fs::remove(d / kStep / kManifestName); },
       "MANIFEST: cannot open: No such file", nullptr},
      {"manifest empty", [=](const fs::path& d) { write(d / kStep / kManifestName, ""); },
       "does not start with", nullptr},
      {"manifest cut",
       [=](const fs::path& d) { fs::resize_file(d / kStep / kManifestName, 60); },
       "it was cut", nullptr},
      {"manifest edited", [=](const fs::path& d) { flip(d / kStep / kManifestName, 60); },
       "own digest", nullptr},
      {"manifest of another step",
       [=](const fs::path& d) {
         replace_copy(d / kBefore / kManifestName, d / kStep / kManifestName);
       },
       "MANIFEST", "differs from what MANIFEST says"},
      {"folder empty",
       [=](const fs::path& d) {
         fs::remove_all(d / kStep);
         fs::create_directory(d / kStep);
       },
       "MANIFEST: cannot open", nullptr},
  };
}

class CheckpointFaults : public testing::Test {
 protected:
  CheckpointFaults()
      : world_(make_world_communicator()), folder_(*world_), log_(world_->rank() == 0) {
    CheckpointStore store(*world_, base().string(), {}, log_);
    for (const std::int64_t step : {10, 20}) {
      Held held = cut({world_->size(), 1}, world_->rank(), Replicas::once);
      fill(held, step);
      const SaveReport report =
          store.save(held.pieces, synthetic_progress(step), synthetic_provenance());
      EXPECT_TRUE(report.saved) << report.fault;
    }
  }

  fs::path base() const { return fs::path(folder_.path()) / "base"; }

  // A copy of the base directory that `apply` has changed.
  template <class Apply>
  fs::path changed(Apply apply) {
    const fs::path path = fs::path(folder_.path()) / cat("case", cases_++);
    world_->barrier();
    if (world_->rank() == 0) {
      fs::copy(base(), path, fs::copy_options::recursive);
      apply(path);
    }
    world_->barrier();
    return path;
  }

  // find() on `path`: the folder's name, "none", or the error's status and text.
  std::string found(const fs::path& path, const CheckpointConfig& config, Log& log) {
    CheckpointStore store(*world_, path.string(), config, log);
    try {
      const auto result = store.find();
      return result ? fs::path(*result).filename().string() : "none";
    } catch (const Error& error) {
      return cat(static_cast<int>(error.status()), ' ', error.what());
    }
  }

  // The warnings of rank 0 contain `text`; true on the others.
  bool warned(const Log& log, const std::string& text) const {
    if (world_->rank() != 0) return true;
    for (const std::string& warning : log.warnings()) {
      if (warning.find(text) != std::string::npos) return true;
    }
    return false;
  }

  // What load() of step 20 says; "elements differ" on some rank, or empty: all is well.
  std::string loaded(const fs::path& path, const CheckpointConfig& config) {
    CheckpointStore store(*world_, path.string(), config, log_);
    Held held = cut({1, world_->size()}, world_->rank(), Replicas::all);
    try {
      store.load((path / kStep).string(), held.pieces);
    } catch (const Error& error) {
      return error.what();
    }
    const double wrong = static_cast<double>(wrong_elements(held, 20));
    for (const double count : world_->all_gather(std::span<const double>(&wrong, 1))) {
      if (count > 0) return "elements differ";
    }
    return "";
  }

  std::unique_ptr<Communicator> world_;
  SharedFolder folder_;
  Log log_;
  int cases_ = 0;
};

TEST_F(CheckpointFaults, DamageIsNamedAndTheOneBeforeIsTaken) {
  for (const Damage& damage : damages(world_->size())) {
    SCOPED_TRACE(damage.what);
    const fs::path path = changed(damage.apply);
    Log log(world_->rank() == 0);
    EXPECT_EQ(found(path, {}, log), kBefore);
    EXPECT_TRUE(warned(log, damage.fault));
    EXPECT_TRUE(warned(log, "step 20 is passed over"));

    CheckpointConfig named;
    named.resume = "20";
    const std::string refused = found(path, named, log);
    EXPECT_NE(refused.find("65 checkpoint.resume = 20: "), std::string::npos) << refused;
    named.resume = (path / kStep).string();
    EXPECT_EQ(found(path, named, log).substr(0, 3), "65 ");
    EXPECT_NE(loaded(path, {}), "");
  }
}

TEST_F(CheckpointFaults, SizesAloneFindLess) {
  CheckpointConfig config;
  config.verify = VerifyMode::sizes;
  for (const Damage& damage : damages(world_->size())) {
    if (damage.sizes == nullptr) continue;
    SCOPED_TRACE(damage.what);
    const fs::path path = changed(damage.apply);
    const std::string result = loaded(path, config);
    if (*damage.sizes == '\0') {
      EXPECT_EQ(found(path, config, log_), kStep);
      EXPECT_EQ(result, "elements differ");
    } else {
      EXPECT_NE(result.find(damage.sizes), std::string::npos) << result;
    }
  }
}

TEST_F(CheckpointFaults, NoneGoodStopsTheRun) {
  const fs::path path = changed([](const fs::path& d) {
    fs::remove(d / kStep / kManifestName);
    fs::remove(d / kBefore / kIndexName);
  });
  const std::string result = found(path, {}, log_);
  EXPECT_EQ(result.substr(0, 3), "65 ");
  EXPECT_NE(result.find("none of its 2 checkpoints is good"), std::string::npos)
      << result;
  CheckpointConfig config;
  config.resume = "none";
  EXPECT_EQ(found(path, config, log_), "none");
}

TEST_F(CheckpointFaults, LatestIsOnlyAHint) {
  const struct {
    std::string text;
    const char* warning;
  } cases[] = {{"garbage", "does not name a step"},
               {"../..\n", "does not name a step"},
               {"step-0000000020/../step-0000000010\n", "does not name a step"},
               {"", "does not name a step"},
               {std::string(1000, 'x'), "more than the 64 allowed"},
               {"step-0000000030\n", "names step 30"},
               {"step-0000000010\n", "names step 10"}};
  for (const auto& item : cases) {
    SCOPED_TRACE(item.text.substr(0, 40));
    const fs::path path =
        changed([&](const fs::path& d) { write(d / "latest", item.text); });
    Log log(world_->rank() == 0);
    EXPECT_EQ(found(path, {}, log), kStep);
    EXPECT_TRUE(warned(log, item.warning));
  }
  const fs::path path = changed([](const fs::path& d) { fs::remove(d / "latest"); });
  Log log(world_->rank() == 0);
  EXPECT_EQ(found(path, {}, log), kStep);
  EXPECT_TRUE(warned(log, "latest: is missing"));
}

TEST_F(CheckpointFaults, OnlyExactNamesAreCheckpoints) {
  const fs::path path = changed([](const fs::path& d) {
    for (const char* name : {"step-30", "xstep-0000000030", "step-0000000030.old",
                             ".partial-step-0000000030", ".trash-step-0000000010"}) {
      fs::copy(d / kStep, d / name);
    }
  });
  EXPECT_EQ(found(path, {}, log_), kStep);
  EXPECT_FALSE(fs::exists(path / ".partial-step-0000000030"));
  EXPECT_FALSE(fs::exists(path / ".trash-step-0000000010"));
  EXPECT_TRUE(fs::exists(path / "step-0000000030.old"));
}

TEST_F(CheckpointFaults, AnotherModelIsRefused) {
  CheckpointStore store(*world_, base().string(), {}, log_);
  const std::string path = (base() / kStep).string();
  const auto refusal = [&](const SyntheticTensor& tensor) -> std::string {
    Held held;
    held.add(tensor, TensorKind::weight, box_of(tensor, 0, 1), 0, 1);
    try {
      store.load(path, held.pieces);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto expect = [&](const SyntheticTensor& tensor, const char* text) {
    const std::string result = refusal(tensor);
    EXPECT_NE(result.find(text), std::string::npos) << result;
  };
  expect({"blocks/002/norm/weight", {13}},
         "holds no tensor /weight/blocks/002/norm/weight");
  expect({"blocks/001/norm/weight", {14}}, "has the shape [13], this model's is [14]");
  expect({"blocks/001/norm/weight", {13}}, "which this model does not have");
}

TEST_F(CheckpointFaults, DamagedOfTheSameStepIsReplaced) {
  const fs::path path =
      changed([&](const fs::path& d) { flip(d / kStep / shard(1, world_->size()), 16); });
  CheckpointStore store(*world_, path.string(), {}, log_);
  Held held = cut({world_->size(), 1}, world_->rank(), Replicas::once);
  fill(held, 20);
  EXPECT_TRUE(store.save(held.pieces, synthetic_progress(20), {}).saved);
  EXPECT_EQ(loaded(path, {}), "");
}

// Bytes of the shards are a function of the state: equal when saved again elsewhere.
TEST_F(CheckpointFaults, ShardsAreByteIdentical) {
  const fs::path path = fs::path(folder_.path()) / "again";
  CheckpointStore store(*world_, path.string(), {}, log_);
  Held held = cut({world_->size(), 1}, world_->rank(), Replicas::once);
  fill(held, 20);
  Provenance other;
  other.hosts = "elsewhere";
  EXPECT_TRUE(store.save(held.pieces, synthetic_progress(20), other).saved);
  const std::string name = shard(world_->rank(), world_->size());
  const auto bytes = [&](const fs::path& folder) {
    std::ifstream file(folder / kStep / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_GT(bytes(path).size(), 0u);
  EXPECT_TRUE(bytes(path) == bytes(base()));
}

}  // namespace
}  // namespace llmtrain::io
