#include "data/matching_paths.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "llmtrain/core/error.hpp"

namespace llmtrain::data {
namespace {

constexpr std::string_view kWildcards = "*?[";

// What is where the pattern looked: the folder before its first wildcard.
std::string surroundings(const std::string& pattern) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::path(pattern.substr(0, pattern.find_first_of(kWildcards)) + "x").parent_path();
  std::error_code error;
  fs::directory_iterator entries(folder.empty() ? "." : folder, error);
  const std::string where = cat("the folder ", folder.empty() ? "." : folder.string());
  std::vector<std::string> names;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename());
  }
  if (error) return cat(where, ": ", error.message());
  if (names.empty()) return where + " is empty";
  return cat(where, " has ", names.size(), " entries, such as ", std::ranges::min(names));
}

}  // namespace

std::vector<std::string> matching_paths(const std::string& pattern) {
  struct stat info;
  if (::lstat(pattern.c_str(), &info) == 0) return {pattern};

  glob_t matches{};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  if (status != 0 || paths.empty()) {
    fail(Status::bad_data, pattern,
         ": nothing matches; allowed: a file or a pattern with ",
         "at least one match; hint: ", surroundings(pattern));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace llmtrain::data
