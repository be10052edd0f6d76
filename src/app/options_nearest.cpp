// Hints for misspelt names.
#include <algorithm>
#include <cctype>

#include "app/options_rows.hpp"

namespace llmtrain::app {

namespace {

// Levenshtein's distance of two words, blind to case.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::size_t> previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool differ = lower(a[i - 1]) != lower(b[j - 1]);
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + differ});
    }
    std::swap(previous, current);
  }
  return previous[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  constexpr std::size_t kLongestWord = 64;  // of what is worth comparing
  if (word.size() > kLongestWord) return "";
  const auto last_part = [](std::string_view name) {
    return name.substr(name.rfind('.') + 1);
  };
  std::string best;
  std::size_t least = std::clamp<std::size_t>((word.size() + 1) / 2, 1, 3) + 1;
  for (const std::string& candidate : words) {
    // The right name in a wrong section is nearer than two slips in the name.
    const std::size_t here =
        last_part(candidate) == last_part(word) ? 1 : distance(word, candidate);
    if (here < least) {
      least = here;
      best = candidate;
    }
  }
  return best;
}

}  // namespace llmtrain::app
