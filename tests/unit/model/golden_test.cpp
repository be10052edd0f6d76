// I9: logits, loss, every gradient and three optimizer steps agree with PyTorch's, computed in
// double by tests/oracle/make_goldens.py: f32 within 1e-5 of the tensor's norm, 16 bits within
// 1.5 times PyTorch's own error in the same dtype.
#include "support/golden.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "llmtrain/train/engine.hpp"

namespace llmtrain {
namespace {

constexpr index_t kSequences = 3, kContext = 16, kVocabulary = 61;

Config golden_config(ModelFamily family, Precision precision) {
  Config config;
  config.precision.dtype = precision;
  config.model.family = family;
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = family == ModelFamily::llama ? 2 : 4;
  config.model.width = 32;
  config.model.context = kContext;
  config.model.vocabulary = kVocabulary;
  config.model.tied = family == ModelFamily::gpt2;
  resolve(config.model);
  config.batch.micro = config.batch.global = kSequences;
  config.optimizer.learning_rate = 1e-3;
  config.optimizer.clip_norm = 0.5;
  return config;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

double distance(const float* a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The true gradient of a key bias is zero (softmax ignores a shift of all scores): what is
// there is rounding, and Adam turns it into steps of random sign.
bool is_key_bias(const std::string& name) {
  return name.find("attention/k/bias") != std::string::npos;
}

// A model of one family with the weights of its golden file.
class GoldenModel {
 protected:
  GoldenModel(ModelFamily family, Precision precision)
      : golden_(std::string(LLMTRAIN_GOLDENS) + "/" + name(family) + ".h5"),
        config_(golden_config(family, precision)),
        world_(make_self_communicator()),
        grid_(*world_, GridShape{}),
        engine_(config_, grid_),
        tokens_(golden_.ints("tokens")),
        labels_(golden_.ints("labels")),
        document_starts_(golden_.ints("document_starts")) {
    for (const io::Piece& piece : engine_.pieces()) {
      if (piece.kind != io::TensorKind::weight) continue;
      const std::vector<double> values = golden_.doubles("weights/" + piece.name);
      EXPECT_EQ(static_cast<index_t>(values.size()), piece.data.count()) << piece.name;
      std::copy(values.begin(), values.end(), piece.data.data<float>());
    }
    engine_.weights_loaded();
  }

  TensorView view(std::vector<int>& ids) {
    return {ids.data(), Dtype::i32, Shape{kSequences, kContext}};
  }
  ModelInput input() { return {.tokens = view(tokens_), .labels = view(labels_)}; }
  index_t valid() const {
    return std::count_if(labels_.begin(), labels_.end(), [](int l) { return l >= 0; });
  }
  StepOutcome step(index_t s, double learning_rate, double loss_scale = 1) {
    const ModelInput batch = input();
    return engine_.train_step({.micro_batches = {&batch, 1},
                               .valid_tokens = valid(),
                               .step = s,
                               .applied_step = s + 1,
                               .learning_rate = learning_rate,
                               .loss_scale = loss_scale});
  }
  // Logits after every token, one row a token.
  std::vector<std::vector<float>> logits() {
    std::vector<std::vector<float>> rows;
    for (index_t b = 0; b < kSequences; ++b) {
      for (index_t t = 0; t < kContext; ++t) {
        rows.push_back(engine_.last_logits(
            {tokens_.data() + b * kContext, static_cast<std::size_t>(t + 1)}));
      }
    }
    return rows;
  }
  // Every gradient by name.
  std::map<std::string, TensorView> gradients() {
    std::map<std::string, TensorView> result;
    for (int unit = 0; unit < engine_.units().count(); ++unit) {
      const UnitSlice slice = engine_.units().slice(unit);
      for (const ParameterRow& row : slice.parameters->rows()) {
        result[row.spec.name] = slice.gradients.flat(row.offset, row.spec.shape.count());
      }
    }
    return result;
  }

  Golden golden_;
  Config config_;
  std::unique_ptr<Communicator> world_;
  ProcessGrid grid_;
  Engine engine_;
  std::vector<int> tokens_, labels_, document_starts_;
};

class GoldenTest : public GoldenModel, public testing::TestWithParam<ModelFamily> {
 protected:
  GoldenTest() : GoldenModel(GetParam(), Precision::f32) {}
};

TEST_P(GoldenTest, Logits) {
  const std::vector<double> expected = golden_.doubles("logits");
  const double allowed = 1e-5 * norm(expected) / std::sqrt(double(kSequences * kContext));
  auto row = expected.begin();
  for (const std::vector<float>& got : logits()) {
    EXPECT_LE(distance(got.data(), {row, row + kVocabulary}), allowed)
        << "token " << (row - expected.begin()) / kVocabulary;
    row += kVocabulary;
  }
}

TEST_P(GoldenTest, Losses) {
  const double expected = golden_.doubles("loss")[0];
  EXPECT_NEAR(engine_.evaluate(input()) / static_cast<double>(valid()), expected,
              1e-5 * expected);
  ModelInput masked = input();
  masked.document_starts = view(document_starts_);
  const double within_documents = golden_.doubles("document_loss")[0];
  EXPECT_GT(std::abs(within_documents - expected), 1e-3 * expected);  // the mask matters
  EXPECT_NEAR(engine_.evaluate(masked) / static_cast<double>(valid()), within_documents,
              1e-5 * within_documents);
}

TEST_P(GoldenTest, Gradients) {
  const StepOutcome outcome = step(0, 0.0);
  EXPECT_NEAR(outcome.loss, golden_.doubles("loss")[0], 1e-5 * outcome.loss);
  for (const auto& [name, gradient] : gradients()) {
    const std::vector<double> expected = golden_.doubles("gradients/" + name);
    ASSERT_EQ(static_cast<index_t>(expected.size()), gradient.count()) << name;
    double scale = norm(expected);
    if (is_key_bias(name)) {  // of the joint q, k, v bias gradient
      for (const char* other : {"/q/", "/v/"}) {
        std::string sibling = name;
        sibling.replace(sibling.find("/k/"), 3, other);
        scale = std::hypot(scale, norm(golden_.doubles("gradients/" + sibling)));
      }
    }
    EXPECT_LE(distance(gradient.data<float>(), expected), 1e-5 * scale) << name;
  }
}

TEST_P(GoldenTest, ThreeOptimizerSteps) {
  const std::vector<double> losses = golden_.doubles("steps/loss");
  const std::vector<double> norms = golden_.doubles("steps/norm");
  for (std::size_t s = 0; s < 3; ++s) {
    const StepOutcome outcome = step(static_cast<index_t>(s), 1e-3);
    EXPECT_NEAR(outcome.loss, losses[s], 1e-5 * losses[s]) << "step " << s;
    EXPECT_NEAR(outcome.gradient_norm, norms[s], 1e-5 * norms[s]) << "step " << s;
  }
  for (const io::Piece& piece : engine_.pieces()) {
    if (piece.kind != io::TensorKind::weight || is_key_bias(piece.name)) continue;
    const std::vector<double> expected = golden_.doubles("trained/" + piece.name);
    EXPECT_LE(distance(piece.data.data<float>(), expected), 1e-5 * norm(expected))
        << piece.name;
  }
}

class SixteenBits : public GoldenModel,
                    public testing::TestWithParam<std::tuple<ModelFamily, Precision>> {
 protected:
  SixteenBits() : GoldenModel(std::get<0>(GetParam()), std::get<1>(GetParam())) {}
  double error_of_torch(const std::string& tensor) {
    return golden_.doubles(cat("errors/", name(std::get<1>(GetParam())), "/", tensor))[0];
  }
};

TEST_P(SixteenBits, Logits) {
  std::vector<float> got;
  for (const std::vector<float>& row : logits()) {
    got.insert(got.end(), row.begin(), row.end());
  }
  const double error = distance(got.data(), golden_.doubles("logits"));
  EXPECT_GT(error, 0.0);
  EXPECT_LE(error, 1.5 * error_of_torch("logits"));
}

// A gradient of few elements has an error of a random size: these are judged as one.
TEST_P(SixteenBits, Gradients) {
  constexpr double kLossScale = 1024;  // make_goldens.py's
  constexpr index_t kFew = 64;
  step(0, 0.0, kLossScale);
  double few = 0, few_of_torch = 0;
  for (const auto& [name, gradient] : gradients()) {
    std::vector<float> got(gradient.data<float>(),
                           gradient.data<float>() + gradient.count());
    for (float& value : got) value /= kLossScale;
    const double error = distance(got.data(), golden_.doubles("gradients/" + name));
    const double of_torch = error_of_torch("gradients/" + name);
    if (gradient.count() <= kFew) {
      few = std::hypot(few, error);
      few_of_torch = std::hypot(few_of_torch, of_torch);
    } else {
      EXPECT_LE(error, 1.5 * of_torch) << name;
    }
  }
  EXPECT_LE(few, 1.5 * few_of_torch);
}

INSTANTIATE_TEST_SUITE_P(
    Families, SixteenBits,
    testing::Combine(testing::Values(ModelFamily::gpt2, ModelFamily::llama),
                     testing::Values(Precision::bf16, Precision::fp16)),
    [](const auto& parameter) {
      return cat(name(std::get<0>(parameter.param)), "_",
                 name(std::get<1>(parameter.param)));
    });

INSTANTIATE_TEST_SUITE_P(Families, GoldenTest,
                         testing::Values(ModelFamily::gpt2, ModelFamily::llama),
                         [](const auto& parameter) {
                           return std::string(name(parameter.param));
                         });

}  // namespace
}  // namespace llmtrain
