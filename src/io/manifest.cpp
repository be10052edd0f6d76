#include "io/manifest.hpp"

#include <regex>
#include <set>
#include <sstream>

#include "io/digest.hpp"
#include "io/posix_file.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::io {

namespace {

const std::string kFirstLine = "# llmtrain checkpoint, format 1";
const std::string kLastLine = "# manifest ";
constexpr index_t kMaxBytes = index_t{64} << 20;

}  // namespace

index_t Manifest::bytes() const {
  index_t sum = 0;
  for (const FileRecord& file : files) sum += file.bytes;
  return sum;
}

const FileRecord* Manifest::find(const std::string& name) const {
  for (const FileRecord& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string Manifest::text() const {
  std::string out = kFirstLine + "\n";
  for (const FileRecord& file : files) {
    out += cat("# ", file.bytes, " bytes\n", file.digest, "  ", file.name, '\n');
  }
  return out + kLastLine + digest_of(out) + "\n";
}

Manifest Manifest::parse(const std::string& text, const std::string& path) {
  const auto refuse = [&](const auto&... what) {
    fail(Status::bad_data, path, ": ", what...);
  };
  const std::size_t last = text.rfind(kLastLine);
  if (text.compare(0, kFirstLine.size() + 1, kFirstLine + "\n") != 0) {
    refuse("does not start with \"", kFirstLine, "\"");
  }
  if (last == std::string::npos || text[last - 1] != '\n') {
    refuse("has no last line with its own digest: it was cut");
  }
  if (text.substr(last) != kLastLine + digest_of(text.substr(0, last)) + "\n") {
    refuse("does not agree with its own digest");
  }
  static const std::regex size_line("# ([0-9]{1,15}) bytes");
  static const std::regex file_line(
      "([0-9a-f]{32})  (index\\.h5|shard-[0-9]{5,9}-of-[0-9]{5,9}\\.h5)");
  Manifest manifest;
  std::set<std::string> names;
  std::istringstream lines(text.substr(0, last).substr(kFirstLine.size() + 1));
  std::string size, file;
  while (std::getline(lines, size)) {
    std::smatch bytes, record;
    if (!std::getline(lines, file) || !std::regex_match(size, bytes, size_line) ||
        !std::regex_match(file, record, file_line)) {
      refuse("has a line that is not a file's size or digest");
    }
    if (!names.insert(record[2]).second) refuse("names ", record[2].str(), " twice");
    manifest.files.push_back({record[2], std::stoll(bytes[1]), record[1]});
  }
  if (manifest.find(kIndexName) == nullptr) refuse("names no ", kIndexName);
  return manifest;
}

Manifest Manifest::read(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  try {
    return parse(read_file(path, kMaxBytes), path);
  } catch (const Error& error) {
    throw Error(Status::bad_data, error.what());
  }
}

}  // namespace llmtrain::io
