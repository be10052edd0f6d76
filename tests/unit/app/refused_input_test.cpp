// What is wrong with an input is said in full, at its place, with the way out.
#include <gtest/gtest.h>

#include <algorithm>

#include "input_helpers.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::app {
namespace {

std::string fault_of(const std::string& text, const std::vector<std::string>& arguments,
                     int ranks = 1) {
  try {
    parse(text, arguments, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::usage) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

struct BadText {
  std::string text;   // of run.ini
  std::string fault;  // how the only line of the message begins
};

// Each is the only fault, beside what kRequired sets.
const std::vector<BadText> kBadTexts = {
    // The format.
    {"[model]\nlayers 3\n",
     "run.ini:2: layers 3: no = in this line; allowed: [section], key = value, # "
     "comment"},
    {"layers = 3\n", "run.ini:1: layers = 3: stands before any [section]"},
    {"model.layers = 3\n", "run.ini:1: model.layers = 3: stands before any [section]"},
    {"[]\nlayers = 3\n", "run.ini:1: []: the section has no name"},
    {"[  ]\n", "run.ini:1: [  ]: the section has no name"},
    {"[model\nlayers = 3\n", "run.ini:1: [model: the section has no ] at its end"},
    {"[\n", "run.ini:1: [: the section has no ] at its end"},
    {"[model][data]\n", "run.ini:1: [model][data]: one section a line is allowed"},
    {"[model]\n = 3\n", "run.ini:2: = 3: no key before the ="},
    {"[model]\n; layers = 3\n", "run.ini:2: ; layers = 3: a comment starts with #"},
    {std::string("[run]\ndirectory = a\0b\n", 21),
     "run.ini:2: control character 0 (is this a text file?)"},
    {"[run]\ndirectory = a\1b\n", "run.ini:2: control character 1"},
    {"[run]\rdirectory = a\n", "run.ini:1: control character 13"},
    {"[run]\ndirectory = " + std::string(65536, 'x') + "\n",
     "run.ini:2: the line has 65548 bytes; allowed: up to 65536"},
    {std::string((1 << 20) + 1, '\n'), "run.ini: larger than 1048576 bytes"},
    // Keys.
    {"[model]\nlayerz = 3\n",
     "run.ini:2: model.layerz: unknown key (did you mean model.layers?)"},
    {"[modle]\nlayers = 3\n",
     "run.ini:2: modle.layers: unknown key (did you mean model.layers?)"},
    {"[train]\nlearning_rate = 1\n",
     "run.ini:2: train.learning_rate: unknown key (did you mean "
     "optimizer.learning_rate?)"},
    {"[Model]\nLayers = 3\n",
     "run.ini:2: Model.Layers: unknown key (did you mean model.layers?)"},
    {"[#model]\nlayers = 3\n",
     "run.ini:2: #model.layers: unknown key (did you mean model.layers?)"},
    {"[model]\nxyzzy = 3\n", "run.ini:2: model.xyzzy: unknown key"},
    {"[model]\nlayers = 3\n\nlayers = 3\n",
     "run.ini:4: model.layers: already given in line 2"},
    {"[model]\nlayers = 3\n[run]\nseed = 2\n[model]\nlayers = 4\n",
     "run.ini:6: model.layers: already given in line 2"},
    // Values.
    {"[model]\nheads = -1\n",
     "run.ini:2: model.heads = -1: must be an integer from 1 to 1024 (number of "
     "attention "
     "heads)"},
    {"[model]\nheads = 0\n", "run.ini:2: model.heads = 0: must be an integer from 1"},
    {"[model]\nheads = 1025\n", "run.ini:2: model.heads = 1025: must be an integer"},
    {"[run]\nseed = -1\n",
     "run.ini:2: run.seed = -1: must be an integer from 0 to 9223372"},
    {"[run]\nseed = 9223372036854775808\n",
     "run.ini:2: run.seed = 9223372036854775808: "},
    {"[model]\nlayers = 1e3\n", "run.ini:2: model.layers = 1e3: must be an integer"},
    {"[model]\nlayers = 12.0\n", "run.ini:2: model.layers = 12.0: must be an integer"},
    {"[model]\nlayers = 0x10\n", "run.ini:2: model.layers = 0x10: must be an integer"},
    {"[model]\nlayers = 1_000\n", "run.ini:2: model.layers = 1_000: must be an integer"},
    {"[model]\nlayers = 12abc\n", "run.ini:2: model.layers = 12abc: must be an integer"},
    {"[model]\nlayers =\n", "run.ini:2: model.layers = (empty): must be an integer"},
    {"[model]\nlayers = # 3\n", "run.ini:2: model.layers = (empty): must be an integer"},
    {"[model]\ndropout = nan\n",
     "run.ini:2: model.dropout = nan: must be a number from 0 to below 1 (share"},
    {"[model]\ndropout = 1\n", "run.ini:2: model.dropout = 1: must be a number from 0"},
    {"[model]\ndropout = -0.1\n", "run.ini:2: model.dropout = -0.1: must be a number"},
    {"[optimizer]\nlearning_rate = inf\n",
     "run.ini:2: optimizer.learning_rate = inf: must be a number above 0 to 100 "
     "(largest"},
    {"[optimizer]\nlearning_rate = 0\n",
     "run.ini:2: optimizer.learning_rate = 0: must be a number above 0"},
    {"[optimizer]\nlearning_rate = 1e-999\n",
     "run.ini:2: optimizer.learning_rate = 1e-999: must be a number"},
    {"[optimizer]\nlearning_rate = 1,5\n",
     "run.ini:2: optimizer.learning_rate = 1,5: must be a number"},
    {"[optimizer]\nlearning_rate = 1e-3f\n",
     "run.ini:2: optimizer.learning_rate = 1e-3f: must be a number"},
    {"[optimizer]\nclip_order = nan\n",
     "run.ini:2: optimizer.clip_order = nan: must be a number from 1 to inf (order"},
    {"[optimizer]\nclip_norm = inf\n", "run.ini:2: optimizer.clip_norm = inf: must be"},
    {"[model]\ntied =\n",
     "run.ini:2: model.tied = (empty): must be one of true, false, yes, no, on, off, 1, "
     "0 "},
    {"[model]\ntied = 2\n", "run.ini:2: model.tied = 2: must be one of true, false"},
    {"[model]\nfamily = bert\n",
     "run.ini:2: model.family = bert: must be one of gpt2, llama"},
    {"[model]\nfamily = GPT2\n", "run.ini:2: model.family = GPT2: must be one of gpt2"},
    {"[model]\npreset = gpt5\n",
     "run.ini:2: model.preset = gpt5: must be one of none, shakespeare, gpt2-124m"},
    {"[data]\ntoken_bytes = 3\n",
     "run.ini:2: data.token_bytes = 3: must be one of 2, 4 ("},
    {"[data]\nvalidation = \"v.bin\"\n",
     "run.ini:2: data.validation = \"v.bin\": must be a path without quotes"},
    {"[run]\ndirectory =\n", "run.ini:2: run.directory = (empty): must be a path"},
    {"[run]\nwall_time = 30\n",
     "run.ini:2: run.wall_time = 30: must be empty, hh:mm:ss or d-hh:mm:ss (time after"},
    {"[checkpoint]\nresume = atuo\n",
     "run.ini:2: checkpoint.resume = atuo: must be auto, none, a step number, or a path"},
    {"[checkpoint]\nkeep = 0\n",
     "run.ini:2: checkpoint.keep = 0: must be an integer from 1"},
    {"[precision]\ndtype = float16\n",
     "run.ini:2: precision.dtype = float16: must be one of f32, bf16, fp16 ("},
    {"[precision]\nloss_scale_backoff = 1\n",
     "run.ini:2: precision.loss_scale_backoff = 1: must be a number above 0 to below 1"},
    // Keys against each other.
    {"[precision]\ndtype = bf16\ngradients = fp16\n",
     "run.ini:3: precision.gradients = fp16: must be f32 or precision.dtype = bf16; "
     "hint: "
     "precision.gradients = f32"},
    {"[parallel]\ntensor = 2\n",
     "run.ini:2: parallel.tensor = 2: with parallel.data = 0 and parallel.pipeline = 1, "
     "but "
     "the job has 1 ranks; allowed: parallel.data * parallel.pipeline * parallel.tensor "
     "= "
     "ranks; hint: mpirun -np 2"},
    {"[parallel]\nchunks = 2\nschedule = interleaved\n",
     "run.ini:2: parallel.chunks = 2: needs several ranks in the pipeline"},
    {"[parallel]\nblocks = 3,x\n",
     "run.ini:2: parallel.blocks = 3,x: must be 1 numbers from 1, separated by commas, "
     "that "
     "add up to model.layers = 6; hint: leave it empty"},
    {"[precision]\ndtype = bf16\nreduction = fp16\n",
     "run.ini:3: precision.reduction = fp16: needs precision.dtype = fp16, whose loss "
     "scale"},
    {"[precision]\nloss_scale_minimum = 1e6\n",
     "run.ini:2: precision.loss_scale = 65536: must be at least "
     "precision.loss_scale_minimum = 1000000"},
    {"[run]\ndevice = cuda\n",
     "run.ini:2: run.device = cuda: this version trains on CPUs only; hint: run.device = "
     "auto"},
    {"[model]\nwidth = 100\n",
     "run.ini:2: model.width = 100: must be a multiple of model.heads = 6; hint: "
     "model.width = 96 or 102"},
    {"[model]\nheads = 7\n",
     "run.ini:2: model.width = 384: must be a multiple of model.heads = 7; hint: "
     "model.width = 378 or 385"},
    {"[model]\nheads = 8\nkv_heads = 6\n",
     "run.ini:2: model.heads = 8: must be a multiple of model.kv_heads = 6; hint: "
     "model.kv_heads = 4"},
    {"[model]\nheads = 6\nkv_heads = 7\n",
     "run.ini:2: model.heads = 6: must be a multiple of model.kv_heads = 7; hint: "
     "model.kv_heads = 6"},
    {"[model]\nfamily = llama\nwidth = 54\n",
     "run.ini:3: model.width = 54: must be an even multiple of model.heads = 6 with "
     "model.family = llama, whose RoPE turns pairs; hint: model.width = 48 or 60"},
    {"[model]\nheads = 1\n",
     "run.ini:2: model.width = 384: with model.heads = 1 a head has 384 elements; "
     "allowed: "
     "up to 256; hint: model.heads = 2 or more"},
    {"[model]\nvocabulary = 256\n",
     "run.ini:2: model.vocabulary = 256: must be at least 257 with data.format = text"},
    {"[data]\nformat = llmc\n",
     "run.ini:2: model.vocabulary = 0: must be set with data.format = llmc; hint: 50257"},
    {"[data]\nvalidation = v\nvalidation_fraction = 0.1\n",
     "run.ini:3: data.validation_fraction = 0.1: must be 0 where data.validation = v is "
     "given"},
    {"[model]\nvocabulary = 9\n[data]\nformat = raw\n[train]\nsample_tokens = 5\n",
     "run.ini:6: train.sample_tokens = 5: needs data.format = text, whose ids are bytes, "
     "not raw; hint: train.sample_tokens = 0"},
    {"[train]\nepochs = 2\n",
     "command line: train.steps = 100: exactly one of train.steps, train.epochs = 2 and "
     "train.tokens = 0 must be above 0; hint: set the others to 0"},
    {"[schedule]\nwarmup_steps = 101\n",
     "run.ini:2: schedule.warmup_steps = 101: must be at most the run's 100 steps; hint: "
     "schedule.warmup_steps = 5"},
    {"[schedule]\nminimum = 0.001\n",
     "run.ini:2: schedule.minimum = 0.001: must be at most optimizer.learning_rate = "
     "0.0003"},
    {"[schedule]\nkind = wsd\n",
     "run.ini:2: schedule.decay_steps = 0: must be above 0 with schedule.kind = wsd"},
    {"[schedule]\nkind = wsd\nwarmup_steps = 10\ndecay_steps = 91\n",
     "run.ini:4: schedule.decay_steps = 91: must be at most the run's 100 steps without "
     "schedule.warmup_steps = 10; hint: schedule.decay_steps = 18"},
};

TEST(RefusedInput, OfAFile) {
  EXPECT_GE(kBadTexts.size(), 40u);
  for (const BadText& bad : kBadTexts) {
    const std::string fault = fault_of(bad.text, kRequired);
    EXPECT_EQ(fault.substr(0, bad.fault.size()), bad.fault) << fault;
    EXPECT_EQ(std::ranges::count(fault, '\n'), 0) << fault;
  }
}

TEST(RefusedInput, OfTheCommandLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"run.ini"}, "run.ini is not an option (did you mean --input run.ini?)"},
      {{"model.heads=3"},
       "model.heads=3 is not an option (did you mean --model.heads=3?)"},
      {{"--", "x"}, "x is not an option (did you mean --input x?)"},
      {{"--model.lay=7"}, "--model.lay=7: unknown option (did you mean --model.layers?)"},
      {{"--heads=4"}, "--heads=4: unknown option (did you mean --model.heads?)"},
      {{"--hepl"}, "--hepl: unknown option (did you mean --help?)"},
      {{"--xyzzy", "4"}, "--xyzzy: unknown option"},
      {{"-n"}, "-n: unknown option"},
      {{"--check=1"}, "option '--check' does not take any arguments"},
      {{"--model.heads"}, "the required argument for option '--model.heads' is missing"},
      {{"--run.directory", "--check"},
       "--run.directory has no value; hint: --run.directory=VALUE"},
      {{"--run.seed=1", "--run.seed=2"}, "--run.seed is given twice"},
      {{"--input=b.ini"}, "--input is given twice"},
      {{"--model.heads="}, "model.heads = (empty): must be an integer from 1 to 1024 ("},
      {{"--model.heads", "-1"}, "model.heads = -1: must be an integer from 1 to 1024 ("},
      {{"--run.directory=a #b"}, "run.directory = a #b: must be a path"},
      {{"--train.sample_prompt=a\nb"}, "train.sample_prompt = a?b: must be text on one"},
      {{"--train.sample_prompt= a"},
       "train.sample_prompt =  a: must be text on one line"},
      {{"--train.tokens=1000000000000000000", "--train.steps=0"},
       "train.tokens = 1000000000000000000: the run would have 1.2207e+14 steps"},
  };
  for (auto [arguments, expected] : cases) {
    if (arguments.front() != "--train.tokens=1000000000000000000") {
      arguments.insert(arguments.begin(), {"--train.steps=100"});
    }
    arguments.insert(arguments.begin(), {"--data.train=x"});
    expected = "command line: " + expected;
    const std::string fault = fault_of("", arguments);
    EXPECT_EQ(fault.substr(0, expected.size()), expected) << fault;
    EXPECT_EQ(std::ranges::count(fault, '\n'), 0) << fault;
  }
}

TEST(RefusedInput, WhatIsRequired) {
  EXPECT_EQ(fault_of("", {}),
            "run.ini: data.train = (empty): must name the training data; hint: "
            "--data.train=FILE\n"
            "run.ini: train.steps = 0: exactly one of train.steps, train.epochs = 0 and "
            "train.tokens = 0 must be above 0; hint: --train.steps=1000");
}

TEST(RefusedInput, BatchesThatRanksCannotShare) {
  const auto fault = [](const char* batch, int ranks) {
    return fault_of(std::string("[batch]\n") + batch, kRequired, ranks);
  };
  EXPECT_EQ(
      fault("global = 30\n", 4),
      "run.ini:2: batch.global = 30: must be a multiple of the number of data-parallel "
      "ranks, 4; "
      "hint: batch.global = 28 or 32, or 2 of them");
  EXPECT_EQ(
      fault("global = 2\n", 4),
      "run.ini:2: batch.global = 2: must be a multiple of the number of data-parallel "
      "ranks, 4; "
      "hint: batch.global = 4, or 2 of them");
  EXPECT_EQ(
      fault("micro = 3\nglobal = 32\n", 4),
      "run.ini:3: batch.global = 32: is not equal to batch.micro * accumulation steps "
      "* ranks = 3 * n * 4 for any n; hint: batch.micro = 2, or batch.global = 24 or "
      "36");
  EXPECT_EQ(
      fault("micro = 16\n", 4),
      "run.ini:2: batch.global = 32: is not equal to batch.micro * accumulation steps "
      "* ranks = 16 * n * 4 for any n; hint: batch.micro = 8, or batch.global = 64");
}

TEST(RefusedInput, AllFaultsAtOnceInTheirOrder) {
  EXPECT_EQ(
      fault_of("[model]\n"
               "heads = -1\n"
               "[]\n"
               "never = judged\n"
               "[model]\n"
               "preset = gpt5\n"
               "layerz = 3\n"
               "[train]\n"
               "log_every\n"
               "[optimizer]\n"
               "learning_rate = 1e-5\n"
               "[schedule]\n"
               "minimum = 1e-4\n",
               {"--batch.micro=-2", "--data.train=x", "--run.seed=1.5"}, 3),
      "run.ini:2: model.heads = -1: must be an integer from 1 to 1024 (number of "
      "attention heads)\n"
      "run.ini:3: []: the section has no name\n"
      "run.ini:6: model.preset = gpt5: must be one of none, shakespeare, gpt2-124m, "
      "gpt2-350m, gpt2-774m, gpt2-1.5b, llama-15m, llama-110m, tinyllama-1.1b, "
      "llama2-7b, llama2-13b, llama2-70b, llama3-8b, llama3-70b, llama3-405b (a "
      "published shape; the other model keys change it)\n"
      "run.ini:7: model.layerz: unknown key (did you mean model.layers?)\n"
      "run.ini:9: log_every: no = in this line; allowed: [section], key = value, # "
      "comment\n"
      "command line: batch.micro = -2: must be an integer from 0 to 16777216 "
      "(sequences that a rank computes at once; 0: batch.global / ranks)\n"
      "command line: run.seed = 1.5: must be an integer from 0 to "
      "9223372036854775807 (seed of initial weights, order of data and dropout)\n"
      "run.ini: batch.global = 32: must be a multiple of the number of data-parallel "
      "ranks, "
      "3; "
      "hint: batch.global = 30 or 33, or 1 of them\n"
      "run.ini: train.steps = 0: exactly one of train.steps, train.epochs = 0 and "
      "train.tokens = 0 must be above 0; hint: --train.steps=1000\n"
      "run.ini:13: schedule.minimum = 0.0001: must be at most "
      "optimizer.learning_rate = 1e-5");
}

TEST(RefusedInput, FaultsOfPresetsNameTheirPlace) {
  EXPECT_EQ(
      fault_of("[model]\npreset = gpt2-124m\nheads = 7\n", kRequired),
      "run.ini:2: model.width = 768: must be a multiple of model.heads = 7; hint: "
      "model.width = 763 or 770\n"
      "run.ini:3: model.heads = 7: must be a multiple of model.kv_heads = 12; hint: "
      "model.kv_heads = 7");
}

TEST(RefusedInput, ScheduleOfARunInEpochsIsCheckedByTheCaller) {
  const Input input =
      parse("[schedule]\nwarmup_steps = 50\n[train]\nepochs = 2\n", {"--data.train=x"});
  EXPECT_NO_THROW(check_schedule(input, 50));
  try {
    check_schedule(input, 49);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::usage);
    EXPECT_STREQ(error.what(),
                 "run.ini:2: schedule.warmup_steps = 50: must be at most the run's 49 "
                 "steps; hint: schedule.warmup_steps = 2");
  }
}

}  // namespace
}  // namespace llmtrain::app
