#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "app/options_file.hpp"
#include "llmtrain/app/options.hpp"

namespace llmtrain::app {

std::string read_input_file(const std::string& path) {
  if (path.empty()) return "";
  const auto refuse = [&path] {
    fail(Status::usage, path, ": cannot be read: ", std::strerror(errno));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) refuse();
  std::string text;
  std::array<char, 65536> buffer;
  // One block too many shows parse_file() that it is too large; pipes may be endless.
  while (text.size() <= kLargestFile) {
    const std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), file.get());
    if (bytes == 0) break;
    text.append(buffer.data(), bytes);
  }
  if (std::ferror(file.get())) refuse();
  return text;
}

}  // namespace llmtrain::app
