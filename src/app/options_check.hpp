// What keys demand of each other.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "llmtrain/app/options.hpp"

namespace llmtrain::app {

struct Conflict {
  std::vector<std::string> keys;  // whose values contradict each other
  std::string text;               // place, values, way out

  // Whether it may be only a consequence of values that could not be read.
  bool involves(const std::set<std::string>& faulty) const;
};

std::vector<Conflict> conflicts(const Input& input, int ranks);

}  // namespace llmtrain::app
