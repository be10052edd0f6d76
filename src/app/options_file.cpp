// Boost's parser neither counts lines nor says all that is wrong, cuts values at every #,
// and reads beyond the end of an empty section name. So each line is checked here first;
// what it then gets are clean lines, in which every # belongs to a value and is masked.
#include "app/options_file.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <sstream>

namespace llmtrain::app {

namespace {

constexpr char kMask = '\1';  // cannot be in a line: control characters are refused

bool is_space(char symbol) { return symbol == ' ' || symbol == '\t'; }

std::string masked(std::string_view text) {
  std::string result(text);
  std::ranges::replace(result, '#', kMask);
  return result;
}

std::string unmasked(std::string text) {
  std::ranges::replace(text, kMask, '#');
  return text;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || is_space(line[i - 1]))) return line.substr(0, i);
  }
  return line;
}

// Why `line` (trimmed, not empty, without comment) is not in the format; empty: it is.
std::string fault_of_section(std::string_view line) {
  if (line.back() != ']') return "the section has no ] at its end";
  const std::string_view name = trim(line.substr(1, line.size() - 2));
  if (name.empty()) return "the section has no name";
  if (name.find_first_of("[]") != name.npos) return "one section a line is allowed";
  return "";
}

std::string fault_of_setting(std::string_view line) {
  if (line.front() == ';') return "a comment starts with #";
  const std::size_t equals = line.find('=');
  if (equals == line.npos) {
    return "no = in this line; allowed: [section], key = value, # comment";
  }
  if (trim(line.substr(0, equals)).empty()) return "no key before the =";
  return "";
}

std::string fault_of_bytes(std::string_view line) {
  if (line.size() > kLongestLine) {
    return cat("the line has ", line.size(), " bytes; allowed: up to ", kLongestLine);
  }
  for (const char symbol : line) {
    if (static_cast<unsigned char>(symbol) < ' ' && symbol != '\t') {
      return cat("control character ", static_cast<int>(symbol),
                 symbol == 0 ? " (is this a text file?)" : "");
    }
  }
  return "";
}

class Scanner {
 public:
  explicit Scanner(std::string name) : name_(std::move(name)) {}

  void read_line(std::string_view line) {
    ++number_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (std::string fault = fault_of_bytes(line); !fault.empty()) return refuse(fault);
    const std::string_view content = trim(without_comment(line));
    if (content.empty()) return;
    content.front() == '[' ? read_section(content) : read_setting(content);
  }

  FileContents finish() {
    namespace po = boost::program_options;
    std::istringstream text(clean_);
    const po::parsed_options parsed =
        po::parse_config_file(text, po::options_description(), true);
    require(parsed.options.size() == numbers_.size(), "the scanner and Boost differ");
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      contents_.settings.push_back({unmasked(parsed.options[i].string_key),
                                    unmasked(parsed.options[i].value.at(0)),
                                    cat(name_, ":", numbers_[i]), numbers_[i]});
    }
    return std::move(contents_);
  }

 private:
  // Where the line being read is. Keys under a faulty section cannot be judged.
  enum class Under { nothing, section, faulty_section };

  void refuse(const std::string& fault) {
    contents_.faults.push_back({number_, cat(name_, ":", number_, ": ", fault)});
  }

  void read_section(std::string_view line) {
    const std::string fault = fault_of_section(line);
    under_ = fault.empty() ? Under::section : Under::faulty_section;
    if (!fault.empty()) return refuse(cat(shown(line), ": ", fault));
    clean_ += cat("[", masked(trim(line.substr(1, line.size() - 2))), "]\n");
  }

  void read_setting(std::string_view line) {
    if (std::string fault = fault_of_setting(line); !fault.empty()) {
      return refuse(cat(shown(line), ": ", fault));
    }
    if (under_ == Under::nothing) {
      return refuse(cat(shown(line), ": stands before any [section]"));
    }
    if (under_ == Under::faulty_section) return;
    clean_ += masked(line) + '\n';
    numbers_.push_back(number_);
  }

  std::string name_;
  int number_ = 0;
  Under under_ = Under::nothing;
  std::string clean_;
  std::vector<int> numbers_;  // of the lines of `clean_` that are settings
  FileContents contents_;
};

}  // namespace

FileContents parse_file(std::string_view text, const std::string& name) {
  if (text.size() > kLargestFile) {
    fail(Status::usage, name, ": larger than ", kLargestFile,
         " bytes; hint: is this an input file?");
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Scanner scanner(name);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    scanner.read_line(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return scanner.finish();
}

}  // namespace llmtrain::app
