// The process around a run: threads, hosts, and errors that several ranks find.
#pragma once

#include <functional>
#include <string>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/log.hpp"

namespace llmtrain::app {

// Runs `work`, which must not communicate, on every rank. When it throws an Error on any of
// them, all ranks throw one Error that every rank shares: each different message once, with
// the ranks that found it unless all did. Collective.
void together(Communicator& world, const std::function<void()>& work);

// Sets the number of OpenMP threads of this rank: `wanted`, or the cores that the launcher
// left to it. Warns when the ranks of a node have more threads than it has cores. Returns the
// number. Collective.
int set_threads(Communicator& world, std::int64_t wanted, Log& log);

std::string host_name();

// One run at a time in a directory: holds a lock on <directory>/.lock while it lives (flock,
// so a dead process leaves none). A file system without locks is a warning.
class RunLock {
 public:
  // Throws Error(usage) when another process holds it.
  // `key` is the directory's in the input, for messages.
  RunLock(const char* key, const std::string& directory, Log& log);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

// "4 ranks x 2 threads on 2 hosts: node1 (2), node2 (2)". Collective.
std::string describe_hosts(Communicator& world, int threads);

}  // namespace llmtrain::app
