#include "llmtrain/train/generator.hpp"

#include <algorithm>
#include <cmath>

#include "llmtrain/data/token_file.hpp"

namespace llmtrain {

namespace {

std::int32_t draw(std::vector<float> logits, double temperature, double uniform) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<std::int32_t>(likeliest - logits.begin());
  const double largest = *likeliest;
  std::vector<double> cumulative;
  double total = 0;
  for (const float logit : logits) {
    cumulative.push_back(total += std::exp((logit - largest) / temperature));
  }
  const auto found =
      std::upper_bound(cumulative.begin(), cumulative.end(), uniform * total);
  return static_cast<std::int32_t>(
      std::min<std::ptrdiff_t>(found - cumulative.begin(), std::ssize(cumulative) - 1));
}

// How many bytes the UTF-8 character at `at` has, 0 when it is none.
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(at);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong_or_surrogate =
      (first == 0xE0 && byte(at + 1) < 0xA0) || (first == 0xED && byte(at + 1) >= 0xA0) ||
      (first == 0xF0 && byte(at + 1) < 0x90) || (first == 0xF4 && byte(at + 1) >= 0x90);
  // C1 controls (U+0080 to U+009F) reach terminals as escapes too.
  const bool control = first == 0xC2 && byte(at + 1) < 0xA0;
  return overlong_or_surrogate || control ? 0 : length;
}

}  // namespace

std::string generate_text(Engine& engine, Communicator& world, const ModelConfig& model,
                          const GenerationOptions& options) {
  std::vector<std::int32_t> tokens;
  for (const char c : options.prompt) tokens.push_back(static_cast<unsigned char>(c));
  if (tokens.empty()) tokens.push_back(data::kTextEndOfText);
  const PhiloxKey key = philox_key(options.seed, "generate", "");
  std::string text;
  for (index_t i = 0; i < options.tokens; ++i) {
    const auto seen = std::min(tokens.size(), static_cast<std::size_t>(model.context));
    const std::vector<float> logits =
        engine.last_logits({tokens.data() + tokens.size() - seen, seen});
    const double uniform =
        uniform_float(philox_at(key, static_cast<std::uint64_t>(i), 0, 0)[0]);
    const std::int32_t token = std::stoi(
        world.broadcast(std::to_string(draw(logits, options.temperature, uniform)), 0));
    if (token >= data::kTextEndOfText) break;
    tokens.push_back(token);
    text += static_cast<char>(token);
  }
  return text;
}

std::string printable(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text, at);
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (length == 0 || control) {
      result += '?';
      ++at;
    } else {
      result.append(text, at, length);
      at += length;
    }
  }
  return result;
}

}  // namespace llmtrain
