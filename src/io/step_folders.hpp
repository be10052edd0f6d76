// The folder of checkpoints: names of steps, what is complete, what may go.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace llmtrain::io {

std::string step_name(std::int64_t step);  // "step-0000001000"
// Only what step_name() gives.
std::optional<std::int64_t> parse_step(const std::string& name);

std::string partial_name(std::int64_t step);  // ".partial-step-0000001000": being written
std::string trash_name(std::int64_t step);    // ".trash-step-0000001000": being deleted

// Steps with a folder, ascending, whatever is in it.
std::vector<std::int64_t> list_steps(const std::string& directory);

// Removes what dead attempts left: partial and trash folders, a `latest` in the making.
void remove_leftovers(const std::string& directory);

// Takes a checkpoint away: renamed first, so that nothing half deleted looks like one.
void remove_step(const std::string& directory, std::int64_t step);

// The step that `latest` names; nothing when the file does not exist. `fault` says what is
// wrong with a file that names none.
std::optional<std::int64_t> read_latest(const std::string& directory, std::string& fault);

// Which of the complete checkpoints go: all but the newest `keep` and those at multiples
// of `keep_every` (0: none).
std::vector<std::int64_t> steps_to_remove(std::vector<std::int64_t> complete,
                                          std::int64_t keep, std::int64_t keep_every);

}  // namespace llmtrain::io
