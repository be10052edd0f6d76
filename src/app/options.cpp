// The command line, and the order in which values reach the Config.
#include "llmtrain/app/options.hpp"

#include <boost/program_options.hpp>
#include <set>
#include <sstream>

#include "app/options_check.hpp"
#include "app/options_faults.hpp"
#include "app/options_file.hpp"
#include "app/options_rows.hpp"
#include "llmtrain/data/dataset.hpp"

namespace llmtrain::app {

namespace po = boost::program_options;

namespace {

constexpr const char* kPlace = "command line";

struct ModeOption {
  const char* names;  // long, and short behind a comma
  Mode mode;
  const char* sentence;
};
// When several are given, the first of them counts.
constexpr ModeOption kModes[] = {
    {"help,h", Mode::help, "print this text"},
    {"version", Mode::version, "print the versions of the program and its libraries"},
    {"print-reference", Mode::print_reference, "print an input file with every key"},
    {"check", Mode::check, "read and validate the input and the data, print, end"},
};

std::string long_name(const ModeOption& mode) {
  const std::string names = mode.names;
  return names.substr(0, names.find(','));
}

po::options_description described_options() {
  constexpr unsigned kColumns = 99, kSentenceColumns = 60;
  po::options_description all("", kColumns, kSentenceColumns);
  po::options_description modes("Modes (without one: train)", kColumns, kSentenceColumns);
  modes.add_options()("input", po::value<std::string>()->value_name("FILE"),
                      "the input file; all keys may be given as options instead");
  for (const ModeOption& mode : kModes) modes.add_options()(mode.names, mode.sentence);
  all.add(modes);
  const std::vector<Row>& rows = default_rows();
  for (auto row = rows.begin(); row != rows.end();) {
    const std::string section = row->section();
    po::options_description group("[" + section + "]", kColumns, kSentenceColumns);
    for (; row != rows.end() && row->section() == section; ++row) {
      auto* value = po::value<std::string>()->value_name(row->form);
      if (!row->text().empty()) value->default_value(row->text());
      const bool word = row->form == "WORD";
      const std::string sentence = row->sentence + (word ? "; " + row->allowed : "");
      group.add_options()(row->key.c_str(), value, sentence.c_str());
    }
    all.add(group);
  }
  return all;
}

// Boost refuses "--key=" although texts may be empty, so the first = is found here.
std::vector<po::option> split_at_equals(std::vector<std::string>& arguments) {
  const std::string argument = arguments.front();
  const std::size_t equals = argument.find('=');
  if (!argument.starts_with("--") || equals == argument.npos || equals == 2) return {};
  arguments.erase(arguments.begin());
  po::option option(argument.substr(2, equals - 2), {argument.substr(equals + 1)});
  option.original_tokens = {argument};
  return {option};
}

std::string positional_hint(const std::string& argument) {
  const bool setting = argument.find('=') != argument.npos;
  return cat(" is not an option (did you mean --", setting ? "" : "input ",
             shown(argument), "?)");
}

// The key that somebody who wrote `name` may have meant, or else one of `others`.
std::string hint(const char* dashes, const std::string& name,
                 std::vector<std::string> others) {
  for (const Row& row : default_rows()) others.push_back(row.key);
  const std::string near = nearest(name, others);
  return near.empty() ? "" : cat(" (did you mean ", dashes, near, "?)");
}

std::vector<std::string> mode_names() {
  std::vector<std::string> names = {"input"};
  for (const ModeOption& mode : kModes) names.push_back(long_name(mode));
  return names;
}

po::parsed_options parsed_arguments(int argc, const char* const* argv) {
  namespace style = po::command_line_style;
  const po::options_description options = described_options();
  try {
    po::command_line_parser parser(argc, argv);
    po::parsed_options parsed = parser.options(options)
                                    .style(style::unix_style & ~style::allow_guessing)
                                    .extra_style_parser(split_at_equals)
                                    .allow_unregistered()
                                    .run();
    parsed.description = nullptr;  // it ends with this function
    return parsed;
  } catch (const po::error& error) {
    fail(Status::usage, kPlace, ": ", error.what());
  }
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  std::vector<Fault> faults;
  const auto refuse = [&faults](const auto&... text) {
    faults.push_back({kAfterFile, cat(kPlace, ": ", text...)});
  };
  std::set<std::string> seen;
  bool after_unknown = false;  // whose value, standing apart, is no fault of its own
  for (const po::option& option : parsed_arguments(argc, argv).options) {
    const std::string& key = option.string_key;
    const bool positional = option.position_key >= 0 || key.empty();
    if (positional && !after_unknown) {
      refuse(shown(option.value.at(0)), positional_hint(option.value.at(0)));
    }
    after_unknown = option.unregistered && option.value.empty();
    if (positional) continue;
    if (option.unregistered) {
      refuse(shown(option.original_tokens.at(0)), ": unknown option",
             hint("--", key, mode_names()));
    } else if (!seen.insert(key).second) {
      refuse("--", key, " is given twice");
    } else if (option.original_tokens.size() > 1 &&
               option.value.at(0).starts_with("--")) {
      // Boost takes the next option for the value.
      refuse("--", key, " has no value; hint: --", key, "=VALUE");
    } else if (key == "input") {
      line.input = option.value.at(0);
      if (line.input.empty()) refuse("--input needs the name of a file");
    } else if (find_row(default_rows(), key)) {
      line.overrides.push_back({key, option.value.at(0), kPlace});
    }
  }
  throw_if_any(std::move(faults));
  for (const ModeOption& mode : kModes) {
    if (!seen.contains(long_name(mode))) continue;
    line.mode = mode.mode;
    break;
  }
  return line;
}

std::string help_text() {
  std::ostringstream text;
  text << "llmtrain trains decoder-only transformers (GPT-2, Llama) on MPI ranks:\n"
       << "  mpirun -np 8 ./llmtrain --input run.ini [--section.key=value ...]\n"
       << described_options();
  return without_last_newline(text.str());
}

namespace {

// Puts settings into the Config of `input` and notes what is wrong with them.
class Assignment {
 public:
  explicit Assignment(Input& input) : input_(input), rows_(rows(input.config)) {
    for (const Row& row : rows_) input_.places[row.key] = "default";
  }

  void assign(const std::vector<Setting>& settings) {
    // The other keys of the model override its preset wherever they stand.
    for (const Setting& each : settings) {
      if (each.key == "model.preset") assign(each);
    }
    note_changes("preset", [&] { apply_preset(input_.config.model); });
    for (const Setting& each : settings) {
      if (each.key != "model.preset") assign(each);
    }
  }

  // Runs `action` and gives the keys whose values it changes the place `word`.
  template <class Action>
  void note_changes(const char* word, const Action& action) {
    std::vector<std::string> before;
    for (const Row& row : rows_) before.push_back(row.text());
    action();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].text() != before[i]) input_.places[rows_[i].key] = word;
    }
  }

  std::vector<Fault> faults;
  std::set<std::string> faulty;  // keys whose values are not known

 private:
  void assign(const Setting& setting) {
    const auto refuse = [&](const auto&... text) {
      faulty.insert(setting.key);
      faults.push_back({setting.line > 0 ? setting.line : kAfterFile,
                        cat(setting.place, ": ", shown(setting.key), text...)});
    };
    const Row* row = find_row(rows_, setting.key);
    if (!row) return refuse(": unknown key", hint("", setting.key, {}));
    if (setting.line > 0) {
      const auto [first, fresh] = first_lines_.emplace(setting.key, setting.line);
      if (!fresh) return refuse(": already given in line ", first->second);
    }
    if (!row->assign(setting.value)) {
      return refuse(" = ", shown(setting.value), ": must be ", row->allowed, " (",
                    row->sentence, ")");
    }
    input_.places[setting.key] = setting.place;
  }

  Input& input_;
  std::vector<Row> rows_;
  std::map<std::string, int> first_lines_;
};

// Replaces zeros that mean "derived" where what they derive from allows it.
void derive(Config& config, int ranks) {
  resolve(config.model);
  if (config.model.vocabulary == 0) {
    config.model.vocabulary = data::format_vocabulary(config.data.format);
  }
  const index_t replicas = ranks / (config.parallel.tensor * config.parallel.pipeline);
  if (config.batch.micro == 0 && replicas > 0 && config.batch.global % replicas == 0) {
    config.batch.micro = config.batch.global / replicas;
  }
  if (config.checkpoint.directory.empty()) {
    config.checkpoint.directory = config.run.directory + "/checkpoints";
  }
}

}  // namespace

Input read_input(const CommandLine& line, const std::string& text, int ranks) {
  require(ranks > 0, "input for ", ranks, " ranks");
  Input input;
  input.name = line.input.empty() ? kPlace : line.input;
  FileContents file = parse_file(text, input.name);
  std::vector<Setting> settings = std::move(file.settings);
  settings.insert(settings.end(), line.overrides.begin(), line.overrides.end());

  Assignment assignment(input);
  assignment.assign(settings);
  assignment.note_changes("derived", [&] { derive(input.config, ranks); });

  std::vector<Fault> faults = std::move(file.faults);
  faults.insert(faults.end(), assignment.faults.begin(), assignment.faults.end());
  for (const Conflict& conflict : conflicts(input, ranks)) {
    if (!conflict.involves(assignment.faulty)) {
      faults.push_back({kAfterFile, conflict.text});
    }
  }
  throw_if_any(std::move(faults));
  return input;
}

}  // namespace llmtrain::app
