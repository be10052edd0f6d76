// Lines for people. One rank speaks (the others construct a silent log); warnings are
// said once and repeated at the end.
#pragma once

#include <string>
#include <vector>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

class Log {
 public:
  explicit Log(bool speaks) : speaks_(speaks) {}

  // One flushed line on standard output.
  template <class... Args>
  void line(const Args&... args) {
    if (speaks_) write(cat(args...));
  }

  // One line "warning: ..." on standard error, the first time that this text is given.
  template <class... Args>
  void warn(const Args&... args) {
    if (speaks_) write_warning(cat(args...));
  }

  // Every warning so far, in order.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void write(const std::string& text);
  void write_warning(const std::string& text);

  bool speaks_;
  std::vector<std::string> warnings_;
};

}  // namespace llmtrain
