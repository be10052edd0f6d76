// The files that a path or pattern of the input names.
#pragma once

#include <string>
#include <vector>

namespace llmtrain::data {

// The matches of a glob pattern in byte order (no locale), or the path itself when it
// exists as it is written. Throws Error(bad_data) when there are none.
std::vector<std::string> matching_paths(const std::string& pattern);

}  // namespace llmtrain::data
