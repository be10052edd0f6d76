// Other programs read what we write (h5dump, h5py, xxh128sum), our own utility tells good
// from damaged, and files that HDF5 accepts but we never write are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "io/digest.hpp"
#include "io/manifest.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/other_readers.hpp"

namespace llmtrain::io {
namespace {

namespace fs = std::filesystem;

class Tools : public testing::Test {
 protected:
  void SetUp() override {
    Log log(false);
    CheckpointStore store(*self_, folder_.path(), {}, log);
    Held held = cut({1, 1}, 0, Replicas::once);
    fill(held, 7);
    const SaveReport report =
        store.save(held.pieces, synthetic_progress(7), synthetic_provenance());
    ASSERT_TRUE(report.saved) << report.fault;
    path_ = report.path;
  }

  int run(const std::string& command) {
    return io::run(command, folder_.path() + "/output");
  }
  std::string output() const { return contents(folder_.path() + "/output"); }

  // Makes MANIFEST agree with the files again, as an attacker would.
  void reseal() const {
    Manifest manifest = Manifest::read(path_);
    for (FileRecord& record : manifest.files) {
      record.bytes = static_cast<index_t>(fs::file_size(path_ + "/" + record.name));
      record.digest = digest_of_file(path_ + "/" + record.name);
    }
    std::ofstream(path_ + "/MANIFEST", std::ios::binary) << manifest.text();
  }

  std::unique_ptr<Communicator> self_ = make_self_communicator();
  SharedFolder folder_{*self_};
  std::string path_;
};

TEST_F(Tools, H5dumpReadsEveryTensorBitForBit) {
  expect_h5dump_reads(path_, folder_.path());
  EXPECT_EQ(run("h5dump -d /pieces " + path_ + "/index.h5"), 0);
  EXPECT_NE(output().find("\"global_shape\""), std::string::npos);
}

TEST_F(Tools, H5pyReadsEveryTensorBitForBit) {
  expect_h5py_reads(path_, folder_.path());
  EXPECT_NE(output().find("data 2, zero 1"), std::string::npos);
}

TEST_F(Tools, Xxh128sumChecksTheManifest) {
  EXPECT_EQ(run("cd " + path_ + " && xxh128sum -c MANIFEST"), 0) << output();
  EXPECT_NE(output().find("index.h5: OK"), std::string::npos) << output();
  fs::resize_file(path_ + "/index.h5", 1000);
  EXPECT_NE(run("cd " + path_ + " && xxh128sum -c MANIFEST"), 0);
}

TEST_F(Tools, UtilityTellsGoodFromDamaged) {
  const std::string utility = LLMTRAIN_CHECKPOINT " ";
  EXPECT_EQ(run(utility + "ls " + folder_.path()), 0) << output();
  EXPECT_NE(output().find("0.333333  yes"), std::string::npos) << output();
  EXPECT_EQ(run(utility + "show " + path_), 0) << output();
  EXPECT_NE(output().find("/exp_avg/cube/weight [3, 5, 7], 1 piece"), std::string::npos)
      << output();
  EXPECT_EQ(run(utility + "verify " + path_), 0) << output();
  EXPECT_NE(output().find("24 tensors, 2952 elements, 0 NaN"), std::string::npos)
      << output();

  EXPECT_EQ(run(utility + "verify"), 2);
  EXPECT_EQ(run(utility + "frobnicate x"), 2);
  EXPECT_EQ(run(utility + "ls /nonexistent"), 74);
  EXPECT_EQ(run(utility + "show /nonexistent"), 65);
  EXPECT_EQ(run(utility + "verify /nonexistent"), 65);
  fs::resize_file(path_ + "/" + shard_name(0, 1), 1000);
  EXPECT_EQ(run(utility + "ls " + folder_.path()), 65);
  EXPECT_NE(output().find("no: "), std::string::npos);
  EXPECT_EQ(run(utility + "verify " + path_), 65);
  EXPECT_NE(output().find("bytes, MANIFEST says"), std::string::npos) << output();
}

TEST_F(Tools, UtilityCountsNan) {
  Log log(false);
  CheckpointStore store(*self_, folder_.path(), {}, log);
  Held held = cut({1, 1}, 0, Replicas::once);
  fill(held, 8);
  held.pieces[3].data.data<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  const SaveReport report = store.save(held.pieces, synthetic_progress(8), {});
  ASSERT_TRUE(report.saved);
  EXPECT_EQ(run(LLMTRAIN_CHECKPOINT " verify " + report.path), 65);
  EXPECT_NE(output().find("1 NaN"), std::string::npos) << output();
}

TEST_F(Tools, FilesThatWeNeverWriteAreRefused) {
  const std::pair<const char*, const char*> crafts[] = {
      {"external-link", "is a link to somewhere else"},
      {"soft-link", "is a link to somewhere else"},
      {"external-storage", "is not stored in one plain piece"},
      {"chunked", "is not stored in one plain piece"},
      {"virtual", "is not stored in one plain piece"},
      {"double", "is not one row of 32-bit floats"},
      {"two-dimensions", "is not one row of 32-bit floats"},
      {"huge", "too few for what index.h5 says"}};
  const std::string shard = path_ + "/" + shard_name(0, 1);
  const std::string original = contents(shard);
  for (const auto& [kind, refusal] : crafts) {
    std::ofstream(shard, std::ios::binary) << original;
    ASSERT_EQ(run("/usr/bin/python3 " READ_TENSORS " --craft " + std::string(kind) + " " +
                  shard),
              0)
        << output();
    reseal();
    Log log(false);
    CheckpointStore store(*self_, folder_.path(), {}, log);
    Held held = cut({1, 1}, 0, Replicas::once);
    try {
      store.load(path_, held.pieces);
      ADD_FAILURE() << kind << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_data);
      EXPECT_NE(std::string(error.what()).find(refusal), std::string::npos)
          << kind << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace llmtrain::io
