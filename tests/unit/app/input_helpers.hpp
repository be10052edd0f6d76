// Parsing as the program does it, without files.
#pragma once

#include <string>
#include <vector>

#include "llmtrain/app/options.hpp"

namespace llmtrain::app {

// `arguments` as the program's, the input file called run.ini with `text`.
inline Input parse(const std::string& text, const std::vector<std::string>& arguments,
                   int ranks = 1) {
  std::vector<const char*> argv = {"llmtrain", "--input", "run.ini"};
  for (const std::string& each : arguments) argv.push_back(each.c_str());
  const CommandLine line = parse_command_line(static_cast<int>(argv.size()), argv.data());
  return read_input(line, text, ranks);
}

inline CommandLine parse_arguments(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"llmtrain"};
  for (const std::string& each : arguments) argv.push_back(each.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

// What a valid input needs beyond the defaults.
inline const std::vector<std::string> kRequired = {"--data.train=x", "--train.steps=100"};

}  // namespace llmtrain::app
