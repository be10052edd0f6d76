// What valid input means: precedence, places, texts that parse again, generated files.
#include "llmtrain/app/options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "app/options_rows.hpp"
#include "app/options_values.hpp"
#include "input_helpers.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::app {
namespace {

// A value for each key that is not its default.
const std::vector<std::pair<std::string, std::string>> kOtherValues = {
    {"run.directory", "runs/a#b"},
    {"run.seed", "9223372036854775807"},
    {"run.device", "cpu"},
    {"run.threads", "3"},
    {"run.wall_time", "1-02:03:04"},
    {"model.preset", "llama-15m"},
    {"model.family", "llama"},
    {"model.layers", "5"},
    {"model.heads", "8"},
    {"model.kv_heads", "4"},
    {"model.width", "256"},
    {"model.mlp_width", "640"},
    {"model.context", "512"},
    {"model.vocabulary", "1000"},
    {"model.vocabulary_multiple", "128"},
    {"model.tied", "false"},
    {"model.dropout", "0.30000000000000004"},
    {"model.norm_epsilon", "1.0000000000000002e-6"},
    {"model.rope_theta", "500000"},
    {"model.init", "kaiming_uniform"},
    {"model.init_std", "0.006"},
    {"data.format", "raw"},
    {"data.train", "data/*.bin"},
    {"data.validation", "data/valid = 1.bin"},
    {"data.validation_fraction", "0"},  // not beside data.validation
    {"data.token_bytes", "4"},
    {"data.order", "torch"},
    {"data.document_mask", "true"},
    {"data.end_of_text", "2"},
    {"batch.global", "48"},
    {"batch.micro", "6"},
    {"precision.dtype", "fp16"},
    {"precision.gradients", "fp16"},
    {"precision.reduction", "bf16"},
    {"precision.loss_scale", "1024"},
    {"precision.loss_scale_growth", "4"},
    {"precision.loss_scale_backoff", "0.25"},
    {"precision.loss_scale_interval", "100"},
    {"precision.loss_scale_minimum", "0.5"},
    {"optimizer.learning_rate", "0.1234567890123456"},
    {"optimizer.beta1", "0.85"},
    {"optimizer.beta2", "0.999"},
    {"optimizer.epsilon", "1e-9"},
    {"optimizer.weight_decay", "0"},
    {"optimizer.clip_norm", "0.5"},
    {"optimizer.clip_order", "inf"},
    {"optimizer.max_skipped", "0"},
    {"schedule.kind", "wsd"},
    {"schedule.warmup_steps", "7"},
    {"schedule.decay_steps", "20"},
    {"schedule.decay_shape", "1-sqrt"},
    {"schedule.minimum", "1e-5"},
    {"schedule.cycles", "1.5"},
    {"train.steps", "1000"},
    {"train.epochs", "0"},  // not beside train.steps
    {"train.tokens", "0"},
    {"train.log_every", "1"},
    {"train.evaluate_every", "50"},
    {"train.evaluate_batches", "4"},
    {"train.sample_prompt",
     "\"What\tis 3#4;\" said \xC3\x84nne = "
     "she"},
    {"train.sample_tokens", "0"},  // needs data.format = text
    {"train.sample_temperature", "0"},
    {"parallel.zero", "3"},
    {"checkpoint.directory", "/scratch/c"},
    {"checkpoint.every", "100"},
    {"checkpoint.keep", "5"},
    {"checkpoint.keep_every", "500"},
    {"checkpoint.resume", "/scratch/c/step-0000000100"},
    {"checkpoint.verify", "sizes"},
    {"checkpoint.max_failures", "1"},
};

std::vector<std::string> texts(const Config& config) {
  Config copy = config;
  std::vector<std::string> result;
  for (const Row& row : rows(copy)) result.push_back(row.key + " = " + row.text());
  return result;
}

std::vector<std::string> other_texts() {
  std::vector<std::string> result;
  for (const auto& [key, value] : kOtherValues) result.push_back(key + " = " + value);
  return result;
}

TEST(Options, EveryKeyIsReadFromTheCommandLine) {
  std::vector<std::string> arguments;
  for (const auto& [key, value] : kOtherValues) {
    arguments.push_back("--" + key + "=" + value);
  }
  const Input input = parse("", arguments, 2);
  EXPECT_EQ(texts(input.config), other_texts());
  EXPECT_EQ(input.config.model.dropout, 0.1 + 0.2);
  EXPECT_EQ(input.config.optimizer.clip_order, std::numeric_limits<double>::infinity());
}

TEST(Options, ResolvedTextGivesTheSameConfig) {
  std::string text;
  for (const auto& [key, value] : kOtherValues) {
    const std::size_t dot = key.find('.');
    text += cat("[", key.substr(0, dot), "]\n", key.substr(dot + 1), " = ", value, "\n");
  }
  const Config config = parse(text, {}, 2).config;
  EXPECT_EQ(texts(config), other_texts());
  const std::string resolved = resolved_ini(config);
  const Config again = parse(resolved, {}, 2).config;
  EXPECT_EQ(texts(again), other_texts());
  EXPECT_EQ(resolved_ini(again), resolved);
}

TEST(Options, ResolvedTextOfDerivedValuesGivesTheSameConfig) {
  for (const char* preset : {"none", "shakespeare", "gpt2-124m", "llama3-8b"}) {
    std::vector<std::string> arguments = kRequired;
    arguments.push_back(std::string("--model.preset=") + preset);
    const Config config = parse("", arguments, 4).config;
    EXPECT_EQ(texts(parse(resolved_ini(config), {}, 4).config), texts(config)) << preset;
  }
}

TEST(Options, EqualsAreFoundWithAndWithoutOneArgument) {
  const Input input = parse("", {"--data.train", "x", "--train.steps", "5",
                                 "--data.end_of_text", "-1", "--train.sample_prompt="});
  EXPECT_EQ(input.config.data.train, "x");
  EXPECT_EQ(input.config.train.steps, 5);
  EXPECT_EQ(input.config.data.end_of_text, -1);
  EXPECT_EQ(input.places.at("train.sample_prompt"), "command line");
}

TEST(Options, CommandLineOverFileOverPresetOverDefault) {
  const Input input = parse(
      "[model]\nlayers = 2\ncontext = 64\npreset = gpt2-124m\n"
      "[data]\ntrain = x\n[train]\nsteps = 9\n",
      {"--model.context=32", "--train.steps=8"});
  EXPECT_EQ(input.config.model.heads, 12);
  EXPECT_EQ(input.config.model.layers, 2);
  EXPECT_EQ(input.config.model.context, 32);
  EXPECT_EQ(input.config.train.steps, 8);
  EXPECT_EQ(input.config.batch.global, 32);
  EXPECT_EQ(input.places.at("model.heads"), "preset");
  EXPECT_EQ(input.places.at("model.layers"), "run.ini:2");
  EXPECT_EQ(input.places.at("model.context"), "command line");
  EXPECT_EQ(input.places.at("batch.global"), "default");
  EXPECT_EQ(input.places.at("batch.micro"), "derived");
}

TEST(Options, CommandLineReplacesThePresetOfTheFile) {
  const Input input = parse("[model]\npreset = gpt2-124m\n",
                            {"--model.preset=llama-15m", kRequired[0], kRequired[1]});
  EXPECT_EQ(input.config.model.preset, "llama-15m");
  EXPECT_EQ(input.config.model.width, 288);
}

TEST(Options, ZerosAreDerived) {
  std::vector<std::string> arguments = kRequired;
  arguments.insert(arguments.end(), {"--run.directory=r", "--model.family=llama"});
  const Config config = parse("", arguments, 4).config;
  EXPECT_EQ(config.model.vocabulary, 257);
  EXPECT_EQ(config.model.kv_heads, 6);
  EXPECT_EQ(config.model.mlp_width, 1024);
  EXPECT_EQ(config.batch.micro, 8);
  EXPECT_EQ(config.checkpoint.directory, "r/checkpoints");
}

TEST(Options, FileFormat) {
  const Input input = parse(
      "\xEF\xBB\xBF# a comment\r\n"
      "  [ data ]  # behind white space\r\n"
      "train=/data/run#3/x.bin# y \t # a comment\r\n"
      "validation = a=b\r\n"
      "\r\n"
      "document_mask = YES\r\n"
      "[train]\n"
      "\t steps \t=\t 3 #\n"
      "[data]\n"
      "order = sequential",
      {});
  EXPECT_EQ(input.config.data.train, "/data/run#3/x.bin# y");
  EXPECT_EQ(input.config.data.validation, "a=b");
  EXPECT_TRUE(input.config.data.document_mask);
  EXPECT_EQ(input.config.train.steps, 3);
  EXPECT_EQ(input.config.data.order, DataOrder::sequential);
  EXPECT_EQ(input.places.at("data.order"), "run.ini:10");
}

TEST(Options, Modes) {
  EXPECT_EQ(parse_arguments({}).mode, Mode::train);
  EXPECT_EQ(parse_arguments({"--input", "a.ini"}).input, "a.ini");
  EXPECT_EQ(parse_arguments({"--input=a.ini", "--check"}).mode, Mode::check);
  EXPECT_EQ(parse_arguments({"--help"}).mode, Mode::help);
  EXPECT_EQ(parse_arguments({"-h", "--check"}).mode, Mode::help);
  EXPECT_EQ(parse_arguments({"--version"}).mode, Mode::version);
  EXPECT_EQ(parse_arguments({"--print-reference"}).mode, Mode::print_reference);
}

TEST(Options, EchoNamesEveryKeyAndItsPlace) {
  const Input input = parse("[data]\ntrain = x\n", {"--train.steps=5"});
  std::string text = echo(input);
  // However wide the columns are.
  text.erase(std::unique(text.begin(), text.end(),
                         [](char a, char b) { return a == ' ' && b == ' '; }),
             text.end());
  for (const char* line :
       {"\ndata.train = x # run.ini:2\n", "\ntrain.steps = 5 # command line\n",
        "\nmodel.width = 384 # default\n", "\nmodel.kv_heads = 6 # derived\n"}) {
    EXPECT_NE(text.find(line), text.npos) << line << text;
  }
  EXPECT_EQ(std::ranges::count(text, '\n') + 1,
            static_cast<std::ptrdiff_t>(default_rows().size()));
}

TEST(Options, ReferenceFileIsFresh) {
  std::ifstream file(LLMTRAIN_SOURCE_DIR "/inputs/reference.ini");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), reference_ini() + "\n")
      << "regenerate: llmtrain --print-reference > inputs/reference.ini";
}

TEST(Options, ReferenceMeansTheDefaults) {
  EXPECT_EQ(texts(parse(reference_ini(), kRequired).config),
            texts(parse("", kRequired).config));
}

TEST(Options, HelpNamesEveryKeyWithin100Columns) {
  const std::string text = help_text();
  for (const Row& row : default_rows()) {
    EXPECT_NE(text.find("  --" + row.key + " "), text.npos) << row.key;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(Options, RowsAreWellFormed) {
  ASSERT_EQ(default_rows().size(), kOtherValues.size());
  Config config;
  for (const Row& row : rows(config)) {
    const std::string value = row.text();
    EXPECT_TRUE(row.assign(value)) << row.key << ": its default is not allowed";
    EXPECT_EQ(row.text(), value) << row.key;
    EXPECT_FALSE(row.sentence.empty() || row.sentence.back() == '.') << row.key;
  }
}

TEST(Options, ShortestTextOfNumbers) {
  const std::vector<std::pair<double, const char*>> cases = {
      {3e-4, "0.0003"},
      {0.1 + 0.2, "0.30000000000000004"},
      {1e-8, "1e-8"},
      {1.5e-10, "1.5e-10"},
      {5e5, "500000"},
      {1e30, "1e+30"},
      {0, "0"},
      {1, "1"},
      {-2.5, "-2.5"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {std::numeric_limits<double>::denorm_min(), "5e-324"},
      {std::numeric_limits<double>::max(), "1.7976931348623157e+308"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(shortest(value), text);
}

TEST(Options, ReadInputFileRefusesWhatIsNoFile) {
  const std::string folder = testing::TempDir();
  for (const std::string& path : {folder, folder + "/missing.ini"}) {
    try {
      read_input_file(path);
      ADD_FAILURE() << path << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::usage);
      EXPECT_TRUE(std::string(error.what()).starts_with(path + ": cannot be read: "));
    }
  }
  EXPECT_EQ(read_input_file(""), "");
}

TEST(Options, ReadInputFileGivesItsBytes) {
  const std::string path = testing::TempDir() + "/options_test.ini";
  const std::string bytes("[a]\r\n\0b", 7);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(read_input_file(path), bytes);
  std::ofstream(path, std::ios::binary) << std::string((1 << 20) + 1, '\n');
  EXPECT_GT(read_input_file(path).size(), 1u << 20);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace llmtrain::app
