// Every op on the meta device: null views pass through, and the scratch that it counts is
// the scratch that the real run takes.
#include <functional>

#include "llmtrain/ops/activation.hpp"
#include "llmtrain/ops/adamw.hpp"
#include "llmtrain/ops/cross_entropy.hpp"
#include "llmtrain/ops/elementwise.hpp"
#include "llmtrain/ops/embedding.hpp"
#include "llmtrain/ops/matmul.hpp"
#include "llmtrain/ops/reduce.hpp"
#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

// Calls one op with zeroed tensors that it takes from `saved`.
struct OpCall {
  const char* name;
  std::function<void(Context&)> run;
};

const std::vector<std::uint32_t> kPositions{0, 1};
const Dropout kDropout{0.1f, {1, 2}, 3, kPositions};
const AttentionShape kAttention{2, 70, 4, 2, 24};

TensorView f32(Context& ctx, Shape shape) { return ctx.saved.allocate(shape); }
TensorView bf16(Context& ctx, Shape shape) {
  return ctx.saved.allocate(shape, Dtype::bf16);
}
TensorView i32(Context& ctx, Shape shape) {
  return ctx.saved.allocate(shape, Dtype::i32);
}

const std::vector<OpCall> kCalls{
    {"fill", [](Context& c) { fill(c, f32(c, {5}), 1.0f); }},
    {"copy", [](Context& c) { copy(c, f32(c, {5}), f32(c, {5})); }},
    {"add", [](Context& c) { add(c, f32(c, {5}), f32(c, {5})); }},
    {"dropout",
     [](Context& c) {
       dropout(c, f32(c, {4, 9}), f32(c, {4, 9}), kDropout);
     }},
    {"add_dropout",
     [](Context& c) {
       add_dropout(c, f32(c, {4, 9}), f32(c, {4, 9}), f32(c, {4, 9}), kDropout);
     }},
    {"matmul",
     [](Context& c) {
       matmul(c, f32(c, {2, 3}), f32(c, {2, 4}), f32(c, {4, 3}));
     }},
    {"linear_forward",
     [](Context& c) {
       linear_forward(c, f32(c, {2, 3}), f32(c, {2, 4}), f32(c, {3, 4}), f32(c, {3}));
     }},
    {"linear_backward",
     [](Context& c) {
       linear_backward(c, {f32(c, {2, 4}), f32(c, {3, 4}), f32(c, {3})}, f32(c, {2, 3}),
                       f32(c, {2, 4}), f32(c, {3, 4}));
     }},
    {"linear_backward_bf16",
     [](Context& c) {
       linear_backward(c, {bf16(c, {700, 4}), f32(c, {3, 4}), f32(c, {3})},
                       bf16(c, {700, 3}), bf16(c, {700, 4}), bf16(c, {3, 4}));
     }},
    {"gelu_forward",
     [](Context& c) {
       gelu_forward(c, f32(c, {2, 3}), f32(c, {2, 3}));
     }},
    {"gelu_backward",
     [](Context& c) {
       gelu_backward(c, f32(c, {2, 3}), f32(c, {2, 3}), f32(c, {2, 3}));
     }},
    {"swiglu_forward",
     [](Context& c) {
       swiglu_forward(c, f32(c, {2, 3}), f32(c, {2, 6}));
     }},
    {"swiglu_backward",
     [](Context& c) {
       swiglu_backward(c, f32(c, {2, 6}), f32(c, {2, 3}), f32(c, {2, 6}));
     }},
    {"norm_forward",
     [](Context& c) {
       norm_forward(c, NormKind::layer, 1e-5f, f32(c, {4, 9}), f32(c, {4, 2}),
                    {f32(c, {4, 9}), f32(c, {4, 9}), f32(c, {4, 9}), kDropout},
                    f32(c, {9}), f32(c, {9}));
     }},
    {"norm_backward",
     [](Context& c) {
       norm_backward(c, NormKind::layer, {f32(c, {70, 9}), f32(c, {9}), f32(c, {9})},
                     f32(c, {70, 9}), f32(c, {70, 9}), f32(c, {70, 2}), f32(c, {9}));
     }},
    {"attention_forward",
     [](Context& c) {
       attention_forward(c, f32(c, {140, 96}), f32(c, {8, 70}), f32(c, {140, 192}),
                         kAttention, {i32(c, {2, 70})}, kDropout);
     }},
    {"attention_backward",
     [](Context& c) {
       attention_backward(c, f32(c, {140, 192}), f32(c, {140, 96}), f32(c, {140, 192}),
                          f32(c, {140, 96}), f32(c, {8, 70}), kAttention,
                          {i32(c, {2, 70})}, kDropout);
     }},
    {"cross_entropy",
     [](Context& c) {
       cross_entropy(c, f32(c, {3}), f32(c, {3, 8}), i32(c, {3}), 7);
     }},
    {"cross_entropy_with_gradient",
     [](Context& c) {
       cross_entropy_with_gradient(c, f32(c, {3}), f32(c, {3, 8}), i32(c, {3}), 7, 1.0f);
     }},
    {"embedding_forward",
     [](Context& c) {
       embedding_forward(c, f32(c, {6, 8}), i32(c, {6}), f32(c, {9, 8}), f32(c, {3, 8}),
                         3);
     }},
    {"embedding_backward",
     [](Context& c) {
       embedding_backward(c, f32(c, {9, 8}), f32(c, {3, 8}), f32(c, {6, 8}), i32(c, {6}),
                          3);
     }},
    {"rope_table",
     [](Context& c) {
       rope_table(c, f32(c, {5, 8}), 1e4);
     }},
    {"rope",
     [](Context& c) {
       rope(c, f32(c, {6, 24}), f32(c, {5, 8}), {2, 8, 3}, RopeDirection::forward);
     }},
    {"adamw",
     [](Context& c) {
       adamw(c, f32(c, {5}), bf16(c, {5}), f32(c, {5}), f32(c, {5}), f32(c, {5}),
             {0.1f, 0.9f, 0.9f, 1e-8f, 0.1f, 1.0f, 1});
     }},
    {"sum_of_powers", [](Context& c) { sum_of_powers(c, f32(c, {40000}), 2.0); }},
    {"sum", [](Context& c) { sum(c, f32(c, {40000})); }},
};

class MetaDevice : public testing::TestWithParam<OpCall> {};
INSTANTIATE_TEST_SUITE_P(, MetaDevice, testing::ValuesIn(kCalls),
                         [](const auto& call) { return std::string(call.param.name); });

TEST_P(MetaDevice, CountsTheScratchOfTheRealRun) {
  Device meta(DeviceKind::meta);
  Arena meta_saved, meta_scratch;
  Context measuring{meta, meta_saved, meta_scratch};
  GetParam().run(measuring);
  EXPECT_EQ(meta_scratch.used(), 0);

  Device cpu(DeviceKind::cpu);
  Arena saved(cpu, meta_saved.high_water(), MemoryUse::activations);
  Arena scratch(cpu, meta_scratch.high_water(), MemoryUse::workspace);
  Context real{cpu, saved, scratch};
  GetParam().run(real);
  EXPECT_EQ(scratch.used(), 0);
  EXPECT_EQ(scratch.high_water(), meta_scratch.high_water());
}

}  // namespace
}  // namespace llmtrain::ops
