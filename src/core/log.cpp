#include "llmtrain/core/log.hpp"

#include <algorithm>
#include <cstdio>

namespace llmtrain {

void Log::write(const std::string& text) {
  std::fputs((text + '\n').c_str(), stdout);
  std::fflush(stdout);
}

void Log::write_warning(const std::string& text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) != warnings_.end()) return;
  warnings_.push_back(text);
  std::fflush(stdout);
  std::fputs(("warning: " + text + '\n').c_str(), stderr);
}

}  // namespace llmtrain
