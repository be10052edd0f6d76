// Values as bytes, to send them between the ranks of one run.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>

#include "llmtrain/core/error.hpp"

namespace llmtrain::io {

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(const std::string& bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, advance(sizeof value), sizeof value);
    return value;
  }
  std::string get_text() {
    const auto size = get<std::size_t>();
    return std::string(advance(size), size);
  }
  bool done() const { return at_ == bytes_.size(); }

 private:
  const char* advance(std::size_t size) {
    require(size <= bytes_.size() - at_, "a message between ranks is cut short");
    const char* const start = bytes_.data() + at_;
    at_ += size;
    return start;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace llmtrain::io
