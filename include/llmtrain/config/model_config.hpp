// What the [model] section of the input file says.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace llmtrain {

enum class ModelFamily {
  gpt2,   // learned positions, LayerNorm, GELU (tanh), biases
  llama,  // RoPE, RMSNorm, SwiGLU, grouped-query attention, no biases
};
inline constexpr std::array kModelFamilies{ModelFamily::gpt2, ModelFamily::llama};

constexpr const char* name(ModelFamily family) {
  switch (family) {
    case ModelFamily::gpt2:
      return "gpt2";
    case ModelFamily::llama:
      return "llama";
  }
  return "?";
}

enum class WeightInit {
  normal,           // standard deviation init_std; residual projections / sqrt(2 layers)
  kaiming_uniform,  // bound sqrt(3 / fan_in) for matrices
  zeros,            // matrices and embeddings zero (norm weights stay one)
};
inline constexpr std::array kWeightInits{WeightInit::normal, WeightInit::kaiming_uniform,
                                         WeightInit::zeros};

constexpr const char* name(WeightInit init) {
  switch (init) {
    case WeightInit::normal:
      return "normal";
    case WeightInit::kaiming_uniform:
      return "kaiming_uniform";
    case WeightInit::zeros:
      return "zeros";
  }
  return "?";
}

struct ModelConfig {
  std::string preset = "none";  // a named shape; the other keys override its values
  ModelFamily family = ModelFamily::gpt2;
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t width = 384;   // of the residual stream; a multiple of heads
  std::int64_t mlp_width =
      0;  // 0: 4 * width (gpt2), 8/3 * width rounded up to 64 (llama)
  std::int64_t context = 256;             // tokens of a sequence
  std::int64_t vocabulary = 0;            // 0: what the data's format fixes
  std::int64_t vocabulary_multiple = 64;  // in memory the rows are padded to a multiple
  bool tied = true;                       // the head reads the embedding's weight
  double dropout = 0.0;                   // embedding, attention, residuals; in [0, 1)
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  WeightInit init = WeightInit::normal;
  double init_std = 0.02;

  std::int64_t head_dim() const { return width / heads; }
  std::int64_t padded_vocabulary() const {
    return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple *
           vocabulary_multiple;
  }
};

// Replaces the zeros above that mean "derived" by their values.
void resolve(ModelConfig& config);

// The public shapes by name ("gpt2-124m", "llama3-8b", ...) and small ones. Returns
// whether there is one called config.preset; sets every shape key from it. "none" changes
// nothing.
bool apply_preset(ModelConfig& config);
// Their names, for messages.
std::string preset_names();

// Everything that changes what the weights compute, on one line: two models with equal texts
// are the same function of their weights.
std::string describe(const ModelConfig& config);

// Parameters in matrix products (the vocabulary unpadded; embeddings that are only looked
// up do not count), for FLOPs.
std::int64_t matmul_parameters(const ModelConfig& config);

// Floating-point operations of training one token, forward and backward:
// 6 N + 6 L C T, N = matmul_parameters, attention counted causal (half the T x T square).
double flops_per_token(const ModelConfig& config);

}  // namespace llmtrain
