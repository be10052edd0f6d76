// XXH3-128 of a stream of bytes, as xxh128sum prints it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace llmtrain::io {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(const void* data, std::size_t bytes);
  // Of all that was added: 32 hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(std::string_view bytes);
// Reads the file once. Throws Error(io).
std::string digest_of_file(const std::string& path);

}  // namespace llmtrain::io
