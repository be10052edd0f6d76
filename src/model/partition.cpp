#include "llmtrain/model/partition.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

std::vector<std::int64_t> parse(const std::string& text) {
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t number = 0;
    const auto [next, fault] = std::from_chars(at, end, number);
    if (fault != std::errc() || number < 1 || (next < end && *next != ',')) return {};
    numbers.push_back(number);
    if (next + 1 == end) return {};  // a comma at the end
    at = next < end ? next + 1 : end;
  }
  return numbers;
}

std::vector<std::int64_t> balanced(const ModelConfig& config, int parts) {
  // FLOPs of a token: the head's product, and a block with causal attention.
  const double head = static_cast<double>(config.vocabulary * config.width);
  const double matrices = (static_cast<double>(matmul_parameters(config)) - head) /
                          static_cast<double>(config.layers);
  const double block = matrices + static_cast<double>(config.width * config.context);
  std::int64_t best_last = 1;
  double best = -1;
  for (std::int64_t last = 1; last <= config.layers - (parts - 1); ++last) {
    const std::int64_t others = config.layers - last;
    const double most_of_others =
        parts == 1 ? 0 : block * static_cast<double>((others + parts - 2) / (parts - 1));
    const double most =
        std::max(most_of_others, head + block * static_cast<double>(last));
    if (parts > 1 ? best < 0 || most < best : last == config.layers) {
      best = most;
      best_last = last;
    }
  }
  std::vector<std::int64_t> blocks;
  std::int64_t left = config.layers - best_last;
  for (int part = 0; part + 1 < parts; ++part) {
    const std::int64_t share = (left + parts - 2 - part) / (parts - 1 - part);
    blocks.push_back(share);
    left -= share;
  }
  blocks.push_back(best_last);
  return blocks;
}

}  // namespace

std::vector<ModelPart> model_parts(const ModelConfig& config, int parts,
                                   const std::string& blocks) {
  if (parts > config.layers) {
    fail(Status::usage, "model.layers = ", config.layers, " cannot be cut into ", parts,
         " parts (parallel.pipeline * parallel.chunks)");
  }
  const std::vector<std::int64_t> counts =
      blocks.empty() ? balanced(config, parts) : parse(blocks);
  if (static_cast<int>(counts.size()) != parts ||
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != config.layers) {
    fail(Status::usage, "parallel.blocks = ", blocks, ": must be ", parts,
         " numbers from 1, separated by commas, that add up to model.layers = ",
         config.layers);
  }
  std::vector<ModelPart> result;
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    result.push_back({.first_block = first, .blocks = count});
    first += count;
  }
  result.front().embedding = result.back().head = true;
  return result;
}

}  // namespace llmtrain
