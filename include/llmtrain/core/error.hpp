// Errors carry the status that the process ends with; require() checks what a user, a
// file or a caller can get wrong and is always on (assert is for what only a bug can
// break).
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>

namespace llmtrain {

// The documented exit statuses of every program (values follow sysexits.h where it has
// one).
enum class Status {
  finished = 0,
  usage = 2,           // command line or input file
  bad_data = 65,       // data file or checkpoint
  internal = 70,       // a bug
  resources = 71,      // memory or device
  io = 74,             // reading or writing failed
  stopped_early = 75,  // ended before the last step with a checkpoint: resumable
  numerics = 76,       // non-finite loss or gradient
  interrupted = 130,
};

// Whether every rank of the job throws the same error: then one of them tells it and all end
// in order; otherwise the rank that throws ends the others.
enum class Reach { one_rank, every_rank };

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message, Reach reach = Reach::one_rank)
      : std::runtime_error(message), status_(status), reach_(reach) {}
  Status status() const { return status_; }
  Reach reach() const { return reach_; }

 private:
  Status status_;
  Reach reach_;
};

// The arguments written one after another, as by operator<<.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

template <class... Args>
[[noreturn]] void fail(Status status, const Args&... args) {
  throw Error(status, cat(args...));
}

// For faults that every rank finds alike, in data that all have.
template <class... Args>
[[noreturn]] void fail_everywhere(Status status, const Args&... args) {
  throw Error(status, cat(args...), Reach::every_rank);
}

// A format-like first argument that remembers where require() was called.
struct Located {
  const char* text;
  std::source_location where;
  // NOLINTNEXTLINE(google-explicit-constructor): implicit so that a literal is enough
  Located(const char* literal,
          std::source_location caller = std::source_location::current())
      : text(literal), where(caller) {}
};

// Throws Error(internal) with file and line unless `condition` holds: for contracts
// between parts of the program. What a user can get wrong throws through fail() with its
// own status.
template <class... Args>
void require(bool condition, Located message, const Args&... args) {
  if (!condition) [[unlikely]] {
    fail(Status::internal, message.where.file_name(), ":", message.where.line(), ": ",
         message.text, args...);
  }
}

}  // namespace llmtrain
