#include "runtime.hpp"

#include <fcntl.h>
#include <omp.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "llmtrain/core/error.hpp"

namespace llmtrain::app {

namespace {

int cores_of_this_rank() {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? std::max(1, CPU_COUNT(&mask))
                                                       : 1;
}

std::map<std::string, int> ranks_by_host(Communicator& world) {
  std::map<std::string, int> ranks;
  for (const std::string& host : world.all_gather(host_name())) ++ranks[host];
  return ranks;
}

}  // namespace

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

void together(Communicator& world, const std::function<void()>& work) {
  std::string own;  // status digits, blank, message
  try {
    work();
  } catch (const Error& error) {
    own = std::to_string(static_cast<int>(error.status())) + ' ' + error.what();
  }
  const std::vector<std::string> all = world.all_gather(own);
  std::map<std::string, std::vector<int>> found;
  for (int r = 0; r < world.size(); ++r) {
    const std::string& text = all[static_cast<std::size_t>(r)];
    if (!text.empty()) found[text].push_back(r);
  }
  if (found.empty()) return;
  const int status = std::stoi(found.begin()->first);
  std::string message;
  for (const auto& [text, ranks] : found) {
    if (!message.empty()) message += '\n';
    if (static_cast<int>(ranks.size()) < world.size()) {
      message += cat("[rank ", ranks.front(), ranks.size() > 1 ? " and others] " : "] ");
    }
    message += text.substr(text.find(' ') + 1);
  }
  throw Error(static_cast<Status>(status), message, Reach::every_rank);
}

int set_threads(Communicator& world, std::int64_t wanted, Log& log) {
  const int available = cores_of_this_rank();
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int ranks_here = ranks_by_host(world)[host_name()];
  // Ranks without a binding see all cores: each takes its share of them.
  const int share = std::max(1, std::min(available, cores / ranks_here));
  const int threads = wanted > 0 ? static_cast<int>(wanted) : share;
  omp_set_num_threads(threads);
  if (threads * ranks_here > cores) {
    log.warn(ranks_here, " ranks of ", threads, " threads share the ", cores,
             " cores of ", host_name(), ": they will wait for each other");
  } else if (threads > available) {
    log.warn("a rank has ", threads, " threads, but the launcher bound it to ", available,
             " cores: start mpirun with --map-by slot:PE=", threads,
             " or --bind-to none");
  }
  return threads;
}

RunLock::RunLock(const char* key, const std::string& directory, Log& log) {
  const std::string path = directory + "/.lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    fail(Status::io, path, ": cannot be opened: ", std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) {
    log.warn(path, ": cannot be locked (", std::strerror(errno),
             "): see to it that no other run uses this directory");
    return;
  }
  close(descriptor_);
  fail(Status::usage, key, " = ", directory,
       ": another run is using it; wait for it, stop it, or choose another directory");
}

RunLock::~RunLock() { close(descriptor_); }

std::string describe_hosts(Communicator& world, int threads) {
  const auto ranks = ranks_by_host(world);
  std::string text = cat(world.size(), " ranks x ", threads, " threads on ", ranks.size(),
                         ranks.size() == 1 ? " host:" : " hosts:");
  constexpr std::size_t kNamed = 8;
  std::size_t named = 0;
  for (const auto& [host, count] : ranks) {
    if (named++ == kNamed) return text + " ...";
    text += cat(named > 1 ? "," : "", " ", host, " (", count, ")");
  }
  return text;
}

}  // namespace llmtrain::app
