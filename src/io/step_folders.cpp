#include "io/step_folders.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <regex>

#include "io/posix_file.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::io {

namespace {

const std::string kPartial = ".partial-", kTrash = ".trash-";

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace

std::string step_name(std::int64_t step) {
  require(step >= 0 && step <= 9999999999, "step ", step, " has no name of ten digits");
  char text[32];
  std::snprintf(text, sizeof text, "step-%010lld", static_cast<long long>(step));
  return text;
}

std::optional<std::int64_t> parse_step(const std::string& name) {
  static const std::regex form("step-([0-9]{10})");
  std::smatch digits;
  if (!std::regex_match(name, digits, form)) return std::nullopt;
  return std::stoll(digits[1]);
}

std::string partial_name(std::int64_t step) { return kPartial + step_name(step); }

std::string trash_name(std::int64_t step) { return kTrash + step_name(step); }

std::vector<std::int64_t> list_steps(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : list_folder(directory)) {
    if (const auto step = parse_step(name)) steps.push_back(*step);
  }
  return steps;
}

void remove_leftovers(const std::string& directory) {
  for (const std::string& name : list_folder(directory)) {
    for (const std::string& prefix : {kPartial, kTrash}) {
      if (starts_with(name, prefix) && parse_step(name.substr(prefix.size()))) {
        remove_folder(directory, name);
      }
    }
  }
  ::unlink((directory + "/.latest.next").c_str());
}

void remove_step(const std::string& directory, std::int64_t step) {
  remove_folder(directory, trash_name(step));
  rename_path(directory + "/" + step_name(step), directory + "/" + trash_name(step));
  remove_folder(directory, trash_name(step));
}

std::optional<std::int64_t> read_latest(const std::string& directory,
                                        std::string& fault) {
  const std::string path = directory + "/latest";
  if (!exists(path)) return std::nullopt;
  try {
    const std::string text = read_file(path, 64);
    const std::optional<std::int64_t> step =
        text.empty() || text.back() != '\n' ? std::nullopt
                                            : parse_step(text.substr(0, text.size() - 1));
    if (!step) fault = path + ": does not name a step";
    return step;
  } catch (const Error& error) {
    fault = error.what();
    return std::nullopt;
  }
}

std::vector<std::int64_t> steps_to_remove(std::vector<std::int64_t> complete,
                                          std::int64_t keep, std::int64_t keep_every) {
  std::sort(complete.begin(), complete.end());
  const auto kept = static_cast<std::size_t>(keep);
  complete.resize(complete.size() > kept ? complete.size() - kept : 0);
  std::erase_if(complete, [&](std::int64_t step) {
    return keep_every > 0 && step % keep_every == 0;
  });
  return complete;
}

}  // namespace llmtrain::io
