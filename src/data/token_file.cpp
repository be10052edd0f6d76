// llm.c's layout: 256 int32 of header (magic, version, number of tokens, zeros), then
// ids. Its documents begin with the end-of-text id, which for a stream is the same as
// ending so.
//
// The check of ids looks for the maximum first: one vectorised pass over good data.
#include "llmtrain/data/token_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "data/digest.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian");

constexpr index_t kHeaderBytes = 1024;

struct ShardKind {
  std::uint32_t magic, version;
  int token_bytes;
  std::int32_t end_of_text;
  const char* tokenizer;
};
constexpr std::array kShardKinds{ShardKind{20240520, 1, 2, 50256, "GPT-2"},
                                 ShardKind{20240801, 7, 4, 128000, "Llama 3"}};
constexpr char kAllowedShards[] =
    "20240520 version 1 (GPT-2, 16 bits), 20240801 version 7 (Llama 3, 32 bits)";

// llm.c's other files, which are easily taken for token shards.
struct OtherKind {
  std::uint32_t magic;
  const char* what;
};
constexpr std::array kOtherKinds{OtherKind{20240522, "a multiple-choice evaluation set"},
                                 OtherKind{20240326, "a GPT-2 checkpoint"},
                                 OtherKind{20240803, "a Llama 3 checkpoint"},
                                 OtherKind{20240328, "a tokenizer"},
                                 OtherKind{20240527, "an optimizer state"}};

const ShardKind* find_kind(std::uint32_t magic) {
  const auto found = std::ranges::find(kShardKinds, magic, &ShardKind::magic);
  return found == kShardKinds.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const std::string& path, const std::string& found,
                         const std::string& allowed, const std::string& hint) {
  fail(Status::bad_data, path, ": ", found, "; allowed: ", allowed, "; hint: ", hint);
}

[[noreturn]] void fail_io(const std::string& path, const char* action, int error) {
  fail(Status::io, path, ": cannot ", action, ": ", std::strerror(error),
       error == EMFILE ? "; hint: raise the limit of open files (ulimit -n)" : "");
}

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void refuse_magic(const std::string& path, std::uint32_t magic) {
  const std::string allowed = cat("magic ", kAllowedShards);
  if (find_kind(__builtin_bswap32(magic))) {
    refuse(path, cat("magic ", __builtin_bswap32(magic), " with its bytes swapped"),
           allowed,
           "it was written on a big-endian machine; write it again in little-endian");
  }
  const auto other = std::ranges::find(kOtherKinds, magic, &OtherKind::magic);
  if (other != kOtherKinds.end()) {
    refuse(path, cat("magic ", magic), allowed,
           cat("this is ", other->what, " of llm.c"));
  }
  refuse(path, cat("magic ", magic), allowed,
         "ids without a header are data.format = raw, plain text is data.format = text");
}

template <class T>
void widen(std::span<std::int32_t> tokens, const std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    T id;
    std::memcpy(&id, bytes.data() + i * sizeof(T), sizeof(T));
    tokens[i] = id;
  }
}

}  // namespace

// Delegates, so that the destructor closes the file when one of the checks throws.
TokenFile::TokenFile(const std::string& path, DataFormat format, int raw_token_bytes)
    : TokenFile(path, format) {
  open_regular();
  switch (format_) {
    case DataFormat::text:
      tokens_ = size_bytes_ + 1;
      end_of_text_ = kTextEndOfText;
      break;
    case DataFormat::llmc:
      parse_header();
      break;
    case DataFormat::raw:
      token_bytes_ = raw_token_bytes;
      tokens_ = size_bytes_ / token_bytes_;
      check_raw();
      break;
  }
}

TokenFile::TokenFile(const std::string& path, DataFormat format)
    : path_(path), format_(format) {}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : path_(std::move(other.path_)),
      format_(other.format_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      device_(other.device_),
      inode_(other.inode_),
      size_bytes_(other.size_bytes_),
      header_bytes_(other.header_bytes_),
      token_bytes_(other.token_bytes_),
      tokens_(other.tokens_),
      end_of_text_(other.end_of_text_) {}

TokenFile::~TokenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TokenFile::open_regular() {
  struct stat info;
  if (::stat(path_.c_str(), &info) != 0) fail_io(path_, "open", errno);
  if (!S_ISREG(info.st_mode)) {
    refuse(path_, cat("is ", kind_of_file(info.st_mode)), "a regular file",
           S_ISDIR(info.st_mode) ? cat("name its files: ", path_, "/*")
                                 : "write the data to a file");
  }
  if (info.st_size == 0) {
    refuse(path_, "is empty", "at least one sample of tokens", "leave it out");
  }
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail_io(path_, "open", errno);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  size_bytes_ = info.st_size;
}

void TokenFile::parse_header() {
  if (size_bytes_ < kHeaderBytes) {
    refuse(path_, cat("has ", size_bytes_, " bytes"),
           cat("a header of ", kHeaderBytes, " bytes, then token ids"),
           "the copy is incomplete, or this is not data.format = llmc");
  }
  std::array<std::uint32_t, 3> header;  // magic, version, tokens
  read_bytes(std::as_writable_bytes(std::span(header)), 0);
  const ShardKind* const kind = find_kind(header[0]);
  if (!kind) refuse_magic(path_, header[0]);
  if (header[1] != kind->version) {
    refuse(path_, cat("version ", header[1], " of magic ", header[0]),
           cat("magic ", kAllowedShards), "write it again with a current llm.c");
  }
  header_bytes_ = kHeaderBytes;
  token_bytes_ = kind->token_bytes;
  end_of_text_ = kind->end_of_text;
  tokens_ = header[2];
  const index_t expected = kHeaderBytes + tokens_ * token_bytes_;
  if (size_bytes_ != expected) {
    refuse(path_,
           cat("has ", size_bytes_, " bytes, but its header says ", tokens_, " tokens"),
           cat("exactly ", expected, " bytes"),
           size_bytes_ < expected ? "the copy is incomplete; copy it again"
                                  : "the header is wrong, or something was appended");
  }
}

void TokenFile::check_raw() const {
  if (size_bytes_ % token_bytes_ != 0) {
    refuse(path_, cat("has ", size_bytes_, " bytes"),
           cat("a multiple of data.token_bytes = ", token_bytes_),
           "the copy is incomplete, or the token width is another");
  }
  std::array<std::uint32_t, 2> start{};
  if (size_bytes_ < kHeaderBytes) return;
  read_bytes(std::as_writable_bytes(std::span(start)), 0);
  const ShardKind* const kind = find_kind(start[0]);
  if (kind && start[1] == kind->version) {
    refuse(path_, cat("begins with the header of a ", kind->tokenizer, " shard of llm.c"),
           "token ids from the first byte on", "say data.format = llmc");
  }
}

void TokenFile::read(std::span<std::int32_t> tokens, index_t begin,
                     index_t vocabulary) const {
  const auto count = static_cast<index_t>(tokens.size());
  require(begin >= 0 && begin + count <= tokens_, "tokens ", begin, " + ", count, " of ",
          tokens_, " in ", path_);
  const index_t stored_tokens = (size_bytes_ - header_bytes_) / token_bytes_;
  const auto stored = tokens.first(std::min(count, stored_tokens - begin));
  std::vector<std::byte> bytes(stored.size() * token_bytes_);
  read_bytes(bytes, header_bytes_ + begin * token_bytes_);
  switch (token_bytes_) {
    case 1:
      widen<std::uint8_t>(stored, bytes);
      break;
    case 2:
      widen<std::uint16_t>(stored, bytes);
      break;
    default:
      widen<std::int32_t>(stored, bytes);
  }
  if (stored.size() < tokens.size()) tokens.back() = end_of_text_;
  check_ids(tokens, begin, vocabulary);
}

void TokenFile::check_ids(std::span<const std::int32_t> tokens, index_t begin,
                          index_t vocabulary) const {
  // As unsigned, so that a 32-bit id above 2^31 is not negative.
  std::uint32_t maximum = 0;
  for (const std::int32_t id : tokens) {
    maximum = std::max(maximum, static_cast<std::uint32_t>(id));
  }
  if (maximum < vocabulary) return;
  const auto bad = std::ranges::find_if(tokens, [vocabulary](std::int32_t id) {
    return static_cast<std::uint32_t>(id) >= vocabulary;
  });
  refuse(path_,
         cat("token ", begin + (bad - tokens.begin()), " has the id ",
             static_cast<std::uint32_t>(*bad)),
         cat("0 to ", vocabulary - 1, ", the model's vocabulary of ", vocabulary),
         format_ == DataFormat::raw
             ? cat("the vocabulary is another tokenizer's, or data.token_bytes is not ",
                   token_bytes_)
             : "the model needs at least the vocabulary of the data's tokenizer");
}

void TokenFile::read_bytes(std::span<std::byte> bytes, index_t offset) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const index_t at = offset + static_cast<index_t>(done);
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, at);
    if (got < 0 && errno == EINTR) continue;
    const index_t position = std::max<index_t>(0, at - header_bytes_) / token_bytes_;
    if (got < 0) fail_io(path_, cat("read token ", position).c_str(), errno);
    if (got == 0) {
      fail(Status::io, path_, ": ends at byte ", at, " (token ", position, ") but had ",
           size_bytes_, " bytes when it was opened; hint: something cut it; restore it");
    }
    done += got;
  }
}

std::string TokenFile::fingerprint() const {
  constexpr index_t kPiece = 4096;
  std::string content = cat(path_.substr(path_.rfind('/') + 1), '\0', size_bytes_, '\0');
  for (const index_t wanted :
       {index_t{0}, size_bytes_ / 2 - kPiece / 2, size_bytes_ - kPiece}) {
    const index_t offset = std::max<index_t>(0, wanted);
    std::vector<std::byte> piece(std::min(kPiece, size_bytes_ - offset));
    read_bytes(piece, offset);
    content.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return xxh128_hex(content);
}

}  // namespace llmtrain::data
