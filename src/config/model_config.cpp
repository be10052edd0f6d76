#include "llmtrain/config/model_config.hpp"

#include <sstream>

namespace llmtrain {

namespace {

struct Preset {
  const char* name;
  ModelFamily family;
  std::int64_t layers, heads, kv_heads, width, mlp_width, context, vocabulary;
  bool tied;
  double norm_epsilon, rope_theta;
};

constexpr auto kGpt2 = ModelFamily::gpt2;
constexpr auto kLlama = ModelFamily::llama;

// Sources: GPT-2: Radford et al. 2019, table 2; Llama 2: Touvron et al. 2023, table 1 and
// the released configurations; Llama 3: Dubey et al. 2024, table 3; TinyLlama: Zhang et
// al. 2024.
// clang-format off
constexpr Preset kPresets[] = {
    // name          family  layers heads kv   width   mlp  context vocab  tied  epsilon theta
    {"shakespeare",  kGpt2,   6,    6,   6,   384,  1536,   256,      0, true,  1e-5, 1e4},
    {"gpt2-124m",    kGpt2,  12,   12,  12,   768,  3072,  1024,  50257, true,  1e-5, 1e4},
    {"gpt2-350m",    kGpt2,  24,   16,  16,  1024,  4096,  1024,  50257, true,  1e-5, 1e4},
    {"gpt2-774m",    kGpt2,  36,   20,  20,  1280,  5120,  1024,  50257, true,  1e-5, 1e4},
    {"gpt2-1.5b",    kGpt2,  48,   25,  25,  1600,  6400,  1024,  50257, true,  1e-5, 1e4},
    {"llama-15m",    kLlama,  6,    6,   2,   288,   768,   256,  32000, false, 1e-5, 1e4},
    {"llama-110m",   kLlama, 12,   12,   4,   768,  2048,  1024,  32000, false, 1e-5, 1e4},
    {"tinyllama-1.1b", kLlama, 22, 32,   4,  2048,  5632,  2048,  32000, false, 1e-5, 1e4},
    {"llama2-7b",    kLlama, 32,   32,  32,  4096, 11008,  4096,  32000, false, 1e-5, 1e4},
    {"llama2-13b",   kLlama, 40,   40,  40,  5120, 13824,  4096,  32000, false, 1e-5, 1e4},
    {"llama2-70b",   kLlama, 80,   64,   8,  8192, 28672,  4096,  32000, false, 1e-5, 1e4},
    {"llama3-8b",    kLlama, 32,   32,   8,  4096, 14336,  8192, 128256, false, 1e-5, 5e5},
    {"llama3-70b",   kLlama, 80,   64,   8,  8192, 28672,  8192, 128256, false, 1e-5, 5e5},
    {"llama3-405b",  kLlama, 126, 128,   8, 16384, 53248,  8192, 128256, false, 1e-5, 5e5},
};
// clang-format on

}  // namespace

void resolve(ModelConfig& config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.mlp_width == 0) {
    config.mlp_width = config.family == ModelFamily::gpt2
                           ? 4 * config.width
                           : (8 * config.width / 3 + 63) / 64 * 64;
  }
}

bool apply_preset(ModelConfig& config) {
  if (config.preset == "none") return true;
  for (const Preset& preset : kPresets) {
    if (config.preset != preset.name) continue;
    config.family = preset.family;
    config.layers = preset.layers;
    config.heads = preset.heads;
    config.kv_heads = preset.kv_heads;
    config.width = preset.width;
    config.mlp_width = preset.mlp_width;
    config.context = preset.context;
    config.vocabulary = preset.vocabulary;
    config.tied = preset.tied;
    config.norm_epsilon = preset.norm_epsilon;
    config.rope_theta = preset.rope_theta;
    return true;
  }
  return false;
}

std::string preset_names() {
  std::string names = "none";
  for (const Preset& preset : kPresets) names += std::string(", ") + preset.name;
  return names;
}

std::string describe(const ModelConfig& config) {
  std::ostringstream text;
  text.precision(17);
  text << name(config.family) << ", layers " << config.layers << ", heads "
       << config.heads << ", kv_heads " << config.kv_heads << ", width " << config.width
       << ", mlp_width " << config.mlp_width << ", context " << config.context
       << ", vocabulary " << config.vocabulary << (config.tied ? ", tied" : ", untied")
       << ", norm_epsilon " << config.norm_epsilon;
  if (config.family == ModelFamily::llama) text << ", rope_theta " << config.rope_theta;
  return text.str();
}

std::int64_t matmul_parameters(const ModelConfig& config) {
  const std::int64_t head_dim = config.head_dim();
  const std::int64_t attention =
      config.width * (2 * config.width + 2 * config.kv_heads * head_dim);
  const std::int64_t matrices = config.family == ModelFamily::llama ? 3 : 2;
  const std::int64_t mlp = matrices * config.width * config.mlp_width;
  return config.layers * (attention + mlp) + config.vocabulary * config.width;
}

double flops_per_token(const ModelConfig& config) {
  return 6.0 * static_cast<double>(matmul_parameters(config)) +
         6.0 * static_cast<double>(config.layers * config.width) *
             static_cast<double>(config.context);
}

}  // namespace llmtrain
