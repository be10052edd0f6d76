// From the command line and the input file to a checked Config (docs/input.md).
//
// A key is declared once, as a row of src/app/options_rows.cpp; parsing, --help, the echo
// and inputs/reference.ini follow from it. All ranks must see the same bytes, so reading
// is apart from parsing:
//
//   const app::CommandLine line = app::parse_command_line(argc, argv);
//   std::string text;                                            // modes train and check
//   if (rank == 0) text = app::read_input_file(line.input);      // then broadcast
//   const app::Input input = app::read_input(line, text, ranks);
#pragma once

#include <map>
#include <string>
#include <vector>

#include "llmtrain/config/config.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain::app {

enum class Mode {
  train,
  check,            // --check: read, validate, print, end
  help,             // --help: print help_text()
  version,          // --version
  print_reference,  // --print-reference: print reference_ini()
};

// A key with the value that somebody gave to it.
struct Setting {
  std::string key;    // "model.heads"
  std::string value;  // as written
  std::string place;  // "run.ini:12" or "command line"
  int line = 0;       // in the input file; 0: on the command line
};

struct CommandLine {
  Mode mode = Mode::train;
  std::string input;               // of --input; empty: every key comes from elsewhere
  std::vector<Setting> overrides;  // --section.key=value
};

// Throws one Error(usage) with a line for each fault: arguments that are no option, names
// that no key has (with the nearest that one has), options without their value or given
// twice.
CommandLine parse_command_line(int argc, const char* const* argv);

// The bytes of the input file; nothing for an empty path. Throws Error(usage) when it is
// missing, a directory, unreadable or larger than 1 MiB.
std::string read_input_file(const std::string& path);

// The result of parsing: a Config without derived zeros (model.kv_heads, model.mlp_width,
// model.vocabulary, batch.micro, checkpoint.directory) and where its values came from.
struct Input {
  Config config;
  std::string name;  // of the input file, or "command line"
  // By key: a Setting's place, or "default", "preset" or "derived".
  std::map<std::string, std::string> places;
};

// Defaults, then model.preset, then the input file's text, then the command line; derived
// values; then what keys demand of each other and of the number of data-parallel ranks.
// `line.input` only names the text in messages. Throws one Error(usage)
// with a line for each fault, such as
//   run.ini:12: model.heads = -1: must be an integer from 1 to 1024 (attention heads ...)
Input read_input(const CommandLine& line, const std::string& text, int ranks);

// What the schedule demands of the run's length. read_input() has called it unless
// train.epochs is given: then the caller does, once the data are open. Throws as above.
void check_schedule(const Input& input, index_t total_steps);

// An input file that gives the same Config: what a checkpoint stores.
std::string resolved_ini(const Config& config);

// For people, without the last line's end (Log::line adds it).
// Lines "section.key = value  # place", aligned: what a run prints first.
std::string echo(const Input& input);
std::string help_text();
// Every key with its sentence, unit, range and default: inputs/reference.ini.
std::string reference_ini();

}  // namespace llmtrain::app
