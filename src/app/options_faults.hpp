// Faults of the input, collected so that one run shows everything that has to be mended.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/error.hpp"

namespace llmtrain::app {

struct Fault {
  int line;  // of the input file; kAfterFile: of something else
  std::string text;
};
inline constexpr int kAfterFile = std::numeric_limits<int>::max();

// `text` as messages show it: on one line, not endless.
inline std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  if (text.empty()) return "(empty)";
  std::string result(text.substr(0, kLongest));
  std::ranges::replace_if(
      result, [](unsigned char symbol) { return symbol < ' ' || symbol == 127; }, '?');
  return result + (text.size() > kLongest ? "..." : "");
}

// Texts are given to Log::line, which ends them.
inline std::string without_last_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// One Error(usage) with a line for each fault, those of the file in its order.
inline void throw_if_any(std::vector<Fault> faults) {
  if (faults.empty()) return;
  std::ranges::stable_sort(faults, {}, &Fault::line);
  std::string message;
  for (const Fault& fault : faults) {
    message += (message.empty() ? "" : "\n") + fault.text;
  }
  throw Error(Status::usage, message);
}

}  // namespace llmtrain::app
