#include "io/digest.hpp"

#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "io/posix_file.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::io {

struct Digest::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Digest::Digest() : state_(std::make_unique<State>()) {
  require(state_->xxh != nullptr && XXH3_128bits_reset(state_->xxh) == XXH_OK,
          "no state for a digest");
}

Digest::~Digest() = default;

void Digest::add(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH3_128bits_update(state_->xxh, data, bytes);
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string digest_of(std::string_view bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

std::string digest_of_file(const std::string& path) {
  const PosixFile file = PosixFile::open_for_reading(path);
  const index_t size = file.size();
  std::vector<char> buffer(static_cast<std::size_t>(std::min(size, kBufferBytes)));
  Digest digest;
  for (index_t at = 0; at < size; at += kBufferBytes) {
    const index_t bytes = std::min(kBufferBytes, size - at);
    file.read_at(at, buffer.data(), bytes);
    digest.add(buffer.data(), static_cast<std::size_t>(bytes));
  }
  return digest.hex();
}

}  // namespace llmtrain::io
