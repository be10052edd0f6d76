#include "io/verify.hpp"

#include "io/digest.hpp"
#include "io/manifest.hpp"
#include "io/posix_file.hpp"

namespace llmtrain::io {

void check_file(const std::string& folder, const FileRecord& record, VerifyMode mode) {
  const std::string path = folder + "/" + record.name;
  const index_t bytes = PosixFile::open_for_reading(path).size();
  if (bytes != record.bytes) {
    fail(Status::bad_data, path, ": has ", bytes, " bytes, MANIFEST says ", record.bytes);
  }
  if (mode == VerifyMode::full && digest_of_file(path) != record.digest) {
    fail(Status::bad_data, path,
         ": its digest differs from MANIFEST's: it was damaged or "
         "exchanged");
  }
}

std::string find_fault(Communicator& world, const std::string& folder, VerifyMode mode) {
  // One rank reads MANIFEST, so that all judge the same bytes.
  std::string text;
  const std::string unreadable = world.broadcast(fault_in([&] {
                                                   if (world.rank() == 0)
                                                     text = Manifest::read(folder).text();
                                                 }),
                                                 0);
  if (!unreadable.empty()) return unreadable;
  text = world.broadcast(text, 0);
  const std::string fault = fault_in([&] {
    const Manifest manifest = Manifest::parse(text, folder + "/" + kManifestName);
    // Sizes are for one rank to look at; digests are dealt out.
    const int step = mode == VerifyMode::full ? world.size() : 1;
    const int first = mode == VerifyMode::full || world.rank() == 0 ? world.rank() : -1;
    if (first < 0) return;
    for (auto i = static_cast<std::size_t>(first); i < manifest.files.size();
         i += static_cast<std::size_t>(step)) {
      check_file(folder, manifest.files[i], mode);
    }
  });
  return first_fault(world, fault);
}

std::string first_fault(Communicator& world, const std::string& fault) {
  for (const std::string& text : world.all_gather(fault)) {
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace llmtrain::io
