// Runs the saver until it dies, and looks at what it leaves.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {

struct SaverEnd {
  std::int64_t announced = 0;  // the last step that it printed; 0: none
  int status = 0;              // of waitpid
};

// Runs a shell command that becomes the saver; killed after `microseconds` unless 0.
inline SaverEnd run_saver(const std::string& command, unsigned microseconds) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  if (microseconds > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    ::kill(child, SIGKILL);
  }
  std::string said;
  char part[4096];
  for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;) {
    said.append(part, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  SaverEnd end;
  ::waitpid(child, &end.status, 0);
  // A line that was cut short is no announcement. Launchers may add lines of their own.
  std::size_t start = 0;
  for (std::size_t stop; (stop = said.find('\n', start)) != std::string::npos;
       start = stop + 1) {
    const std::string line = said.substr(start, stop - start);
    if (line.starts_with("saved ")) end.announced = std::stoll(line.substr(6));
  }
  return end;
}

// The step of the checkpoint that is found and loads bit for bit; 0: none.
inline std::int64_t load_newest(const std::string& directory) {
  const auto self = make_self_communicator();
  Log log(true);
  CheckpointStore store(*self, directory, {}, log);
  const auto path = store.find();
  if (!path) return 0;
  const Progress progress = store.read_progress(*path);
  Held held = cut({1, 1}, 0, Replicas::once);
  store.load(*path, held.pieces);
  EXPECT_EQ(wrong_elements(held, progress.step), 0);
  EXPECT_TRUE(progress == synthetic_progress(progress.step));
  for (const std::string& warning : log.warnings()) {
    // Death between commit and announcement leaves `latest` one step behind.
    EXPECT_NE(warning.find("latest: "), std::string::npos) << warning;
  }
  return progress.step;
}

}  // namespace llmtrain::io
