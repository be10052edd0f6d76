#include "llmtrain/config/run_length.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

// The two-digit number at the front of `text`, which it leaves; nothing unless it is
// below `limit`.
std::optional<index_t> take_two_digits(std::string_view& text, index_t limit) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  if (!digit(0) || !digit(1)) return std::nullopt;
  const index_t value = 10 * (text[0] - '0') + (text[1] - '0');
  text.remove_prefix(2);
  return value < limit ? std::optional(value) : std::nullopt;
}

// At most 6 digits: about 2700 years of days.
std::optional<index_t> take_number(std::string_view& text) {
  index_t value = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]));
       ++digits) {
    if (digits == 6) return std::nullopt;
    value = 10 * value + (text[digits] - '0');
  }
  text.remove_prefix(digits);
  return digits > 0 ? std::optional(value) : std::nullopt;
}

bool take(std::string_view& text, char symbol) {
  if (!text.starts_with(symbol)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

index_t total_steps(const TrainConfig& train, index_t samples_per_epoch,
                    index_t global_batch, index_t seq_len) {
  require(global_batch > 0 && seq_len > 0, "batch of ", global_batch, " x ", seq_len);
  // The factor keeps 0.07 epochs of 100 samples, 7.000000000000001, at 7 samples.
  const double steps =
      train.steps > 0 ? static_cast<double>(train.steps)
      : train.tokens > 0
          ? static_cast<double>(divide_up(train.tokens, global_batch * seq_len))
          : std::ceil(train.epochs * static_cast<double>(samples_per_epoch) *
                      (1 - 1e-12) / static_cast<double>(global_batch));
  if (!(steps <= static_cast<double>(kMaximumSteps))) {
    fail(Status::usage, "the run would have ", steps, " steps; allowed: up to ",
         kMaximumSteps, "; hint: a larger batch.global or a shorter run");
  }
  const double tokens =
      steps * static_cast<double>(global_batch) * static_cast<double>(seq_len);
  if (!(tokens <= 1e18)) {
    fail(Status::usage, "the run would have ", tokens, " tokens; allowed: up to 1e18");
  }
  return std::max<index_t>(static_cast<index_t>(steps), 1);
}

std::optional<index_t> wall_time_seconds(std::string_view text) {
  std::optional<index_t> hours = take_number(text);
  if (hours && take(text, '-')) {
    const std::optional<index_t> rest = take_two_digits(text, 24);
    hours = rest ? std::optional(24 * *hours + *rest) : std::nullopt;
  }
  if (!hours || !take(text, ':')) return std::nullopt;
  const std::optional<index_t> minutes = take_two_digits(text, 60);
  if (!minutes || !take(text, ':')) return std::nullopt;
  const std::optional<index_t> seconds = take_two_digits(text, 60);
  if (!seconds || !text.empty()) return std::nullopt;
  const index_t sum = 3600 * *hours + 60 * *minutes + *seconds;
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

}  // namespace llmtrain
