// The input file: sections, "key = value" lines, and comments from a # at the start of a
// line or behind white space.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "app/options_faults.hpp"
#include "llmtrain/app/options.hpp"

namespace llmtrain::app {

inline constexpr std::size_t kLargestFile = 1 << 20;  // bytes
inline constexpr std::size_t kLongestLine = 1 << 16;

struct FileContents {
  std::vector<Setting> settings;  // in the order of the file, keys not looked up yet
  std::vector<Fault> faults;      // of lines that are not in the format
};

// `name` is what messages call the file.
FileContents parse_file(std::string_view text, const std::string& name);

}  // namespace llmtrain::app
