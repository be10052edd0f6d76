#include "llmtrain/core/philox.hpp"

namespace llmtrain {

PhiloxKey philox_key(std::uint64_t seed, std::string_view purpose, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](unsigned char byte) {
    hash = (hash ^ byte) * 0x100000001b3;
  };
  for (int i = 0; i < 8; ++i) add(static_cast<unsigned char>(seed >> (8 * i)));
  for (const char c : purpose) add(static_cast<unsigned char>(c));
  add(0);  // so that ("ab", "c") and ("a", "bc") differ
  for (const char c : name) add(static_cast<unsigned char>(c));
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

}  // namespace llmtrain
