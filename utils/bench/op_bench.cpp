// llmtrain-bench-ops: every hot op on the shapes of gpt2-124m (one sequence), in f32 and bf16, with
// its FLOP/s or bytes/s as a share of what this machine reached in the same run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/timer.hpp"
#include "llmtrain/device/context.hpp"
#include "llmtrain/ops/activation.hpp"
#include "llmtrain/ops/adamw.hpp"
#include "llmtrain/ops/attention.hpp"
#include "llmtrain/ops/cross_entropy.hpp"
#include "llmtrain/ops/elementwise.hpp"
#include "llmtrain/ops/embedding.hpp"
#include "llmtrain/ops/matmul.hpp"
#include "llmtrain/ops/norm.hpp"
#include "llmtrain/ops/reduce.hpp"
#include "llmtrain/ops/rope.hpp"
#include "train/matmul_peak.hpp"

namespace llmtrain {
namespace {

constexpr index_t kTokens = 1024, kWidth = 768, kMlp = 3072, kHeads = 12,
                  kVocabulary = 50304;
constexpr index_t kLogitRows = 64;  // of a chunk of the loss head
constexpr index_t kParameters = index_t{1} << 24;

struct Ceilings {
  double flops = 0, bytes = 0;  // a second
};

// Bytes read and written by y += x on tensors far larger than the caches.
double measure_bandwidth(Context& ctx) {
  const ArenaScope scope(ctx.saved);
  const TensorView x = ctx.saved.allocate({kParameters}),
                   y = ctx.saved.allocate({kParameters});
  double best = 0;
  for (int round = 0; round < 10; ++round) {
    const Timer timer;
    ops::add(ctx, y, x);
    best = std::max(best, 3.0 * 4 * static_cast<double>(kParameters) / timer.seconds());
  }
  return best;
}

class Bench {
 public:
  Bench()
      : device_(DeviceKind::cpu),
        saved_(device_, index_t{2} << 30, MemoryUse::activations),
        scratch_(device_, index_t{512} << 20, MemoryUse::workspace),
        ctx_{device_, saved_, scratch_},
        ceilings_{measure_matmul_peak(*make_self_communicator()),
                  measure_bandwidth(ctx_)} {
    benchmark::AddCustomContext("matmul peak, GFLOP/s", cat(ceilings_.flops / 1e9));
    benchmark::AddCustomContext("y += x, GB/s", cat(ceilings_.bytes / 1e9));
  }

  void register_all() {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      dtype_ = dtype;
      register_products();
      register_attention();
      register_rows();
      register_vocabulary();
    }
    register_parameters();
  }

 private:
  // `work` gets its tensors anew from saved_ (make) and then runs many times.
  using Work = std::function<void(Context&)>;
  void add(const std::string& name, double flops, double bytes,
           const std::function<Work()>& make) {
    benchmark::RegisterBenchmark(
        cat(name, "/", llmtrain::name(dtype_)).c_str(),
        [this, flops, bytes, make](benchmark::State& state) {
          const ArenaScope scope(saved_);
          const Work work = make();
          const Timer timer;
          for (auto _ : state) work(ctx_);
          const double rate = static_cast<double>(state.iterations()) / timer.seconds();
          if (flops > 0) {
            state.counters["GFLOP/s"] = flops * rate / 1e9;
            state.counters["of_peak"] = flops * rate / ceilings_.flops;
          } else {
            state.counters["GB/s"] = bytes * rate / 1e9;
            state.counters["of_bandwidth"] = bytes * rate / ceilings_.bytes;
          }
        })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }

  TensorView tensor(Shape shape, Dtype dtype) {
    const TensorView view = saved_.allocate(shape, dtype);
    if (is_floating(dtype))
      ops::fill(ctx_, view, 0.01f);
    else
      std::memset(view.data<std::int32_t>(), 0, static_cast<std::size_t>(view.bytes()));
    return view;
  }

  void register_products() {
    const Dtype t = dtype_;
    struct Size {
      const char* name;
      index_t in, out;
    };
    for (const auto& [name, in, out] :
         {Size{"qkv", kWidth, 3 * kWidth}, Size{"output", kWidth, kWidth},
          Size{"up", kWidth, kMlp}, Size{"down", kMlp, kWidth}}) {
      const double flops = 2.0 * static_cast<double>(kTokens * in * out);
      add(cat("linear_forward/", name), flops, 0, [=, this] {
        return [y = tensor({kTokens, out}, t), x = tensor({kTokens, in}, t),
                w = tensor({out, in}, t),
                b = tensor({out}, t)](Context& c) { ops::linear_forward(c, y, x, w, b); };
      });
      add(cat("linear_backward/", name), 2 * flops, 0, [=, this] {
        return [g = ops::LinearGradients{tensor({kTokens, in}, t),
                                         tensor({out, in}, Dtype::f32),
                                         tensor({out}, Dtype::f32)},
                dy = tensor({kTokens, out}, t), x = tensor({kTokens, in}, t),
                w = tensor({out, in}, t)](Context& c) {
          ops::linear_backward(c, g, dy, x, w);
        };
      });
    }
  }

  void register_attention() {
    const Dtype t = dtype_;
    const ops::AttentionShape shape{1, kTokens, kHeads, kHeads, kWidth / kHeads};
    // The causal half of two products of [T, T] with [T, D] for each head; backward five.
    const double flops = 2.0 * static_cast<double>(kTokens * kTokens * kWidth);
    add("attention_forward", flops, 0, [=, this] {
      return [=, out = tensor({kTokens, kWidth}, t),
              lse = tensor({kHeads, kTokens}, Dtype::f32),
              qkv = tensor({kTokens, 3 * kWidth}, t)](Context& c) {
        ops::attention_forward(c, out, lse, qkv, shape, {}, {});
      };
    });
    add("attention_backward", 2.5 * flops, 0, [=, this] {
      return [=, dqkv = tensor({kTokens, 3 * kWidth}, t),
              dout = tensor({kTokens, kWidth}, t), qkv = tensor({kTokens, 3 * kWidth}, t),
              out = tensor({kTokens, kWidth}, t),
              lse = tensor({kHeads, kTokens}, Dtype::f32)](Context& c) {
        ops::attention_backward(c, dqkv, dout, qkv, out, lse, shape, {}, {});
      };
    });
  }

  // Ops on rows of activations: bytes count each tensor once a reading or writing.
  void register_rows() {
    const Dtype t = dtype_;
    const auto bytes = [&](index_t elements) {
      return static_cast<double>(elements * size_bytes(t));
    };
    add("residual_and_norm_forward", 0, bytes(4 * kTokens * kWidth), [=, this] {
      return [y = tensor({kTokens, kWidth}, t), s = tensor({kTokens, 2}, Dtype::f32),
              in = ops::NormInput{tensor({kTokens, kWidth}, t),
                                  tensor({kTokens, kWidth}, t),
                                  tensor({kTokens, kWidth}, t),
                                  {}},
              w = tensor({kWidth}, t), b = tensor({kWidth}, t)](Context& c) {
        ops::norm_forward(c, ops::NormKind::layer, 1e-5f, y, s, in, w, b);
      };
    });
    add("norm_backward", 0, bytes(4 * kTokens * kWidth), [=, this] {
      return [g = ops::NormGradients{tensor({kTokens, kWidth}, t),
                                     tensor({kWidth}, Dtype::f32),
                                     tensor({kWidth}, Dtype::f32)},
              dy = tensor({kTokens, kWidth}, t), r = tensor({kTokens, kWidth}, t),
              s = tensor({kTokens, 2}, Dtype::f32), w = tensor({kWidth}, t)](Context& c) {
        ops::norm_backward(c, ops::NormKind::layer, g, dy, r, s, w);
      };
    });
    add("gelu_forward", 0, bytes(2 * kTokens * kMlp), [=, this] {
      return [y = tensor({kTokens, kMlp}, t),
              x = tensor({kTokens, kMlp}, t)](Context& c) { ops::gelu_forward(c, y, x); };
    });
    add("gelu_backward", 0, bytes(3 * kTokens * kMlp), [=, this] {
      return [dx = tensor({kTokens, kMlp}, t), dy = tensor({kTokens, kMlp}, t),
              x = tensor({kTokens, kMlp}, t)](Context& c) {
        ops::gelu_backward(c, dx, dy, x);
      };
    });
    add("swiglu_forward", 0, bytes(3 * kTokens * kMlp), [=, this] {
      return [y = tensor({kTokens, kMlp}, t), x = tensor({kTokens, 2 * kMlp}, t)](
                 Context& c) { ops::swiglu_forward(c, y, x); };
    });
    add("swiglu_backward", 0, bytes(5 * kTokens * kMlp), [=, this] {
      return [dx = tensor({kTokens, 2 * kMlp}, t), dy = tensor({kTokens, kMlp}, t),
              x = tensor({kTokens, 2 * kMlp}, t)](Context& c) {
        ops::swiglu_backward(c, dx, dy, x);
      };
    });
    add("rope", 0, bytes(2 * kTokens * 2 * kWidth), [=, this] {
      return [x = tensor({kTokens, 3 * kWidth}, t),
              table = tensor({kTokens, kWidth / kHeads}, Dtype::f32)](Context& c) {
        ops::rope(c, x, table, {2 * kHeads, kWidth / kHeads, kTokens},
                  ops::RopeDirection::forward);
      };
    });
    add("add_dropout", 0, bytes(3 * kTokens * kWidth), [=, this] {
      static const std::vector<std::uint32_t> positions{0};
      return [y = tensor({kTokens, kWidth}, t), r = tensor({kTokens, kWidth}, t),
              x = tensor({kTokens, kWidth}, t)](Context& c) {
        ops::add_dropout(c, y, r, x, {0.1f, {1, 2}, 3, positions});
      };
    });
  }

  void register_vocabulary() {
    const Dtype t = dtype_;
    const double logits = static_cast<double>(kLogitRows * kVocabulary * size_bytes(t));
    add("cross_entropy_with_gradient", 0, 2 * logits, [=, this] {
      return [losses = tensor({kLogitRows}, Dtype::f32),
              x = tensor({kLogitRows, kVocabulary}, t),
              labels = tensor({kLogitRows}, Dtype::i32)](Context& c) {
        ops::cross_entropy_with_gradient(c, losses, x, labels, kVocabulary, 1.0f);
      };
    });
    const double rows = static_cast<double>(kTokens * kWidth * size_bytes(t));
    add("embedding_forward", 0, 2 * rows, [=, this] {
      return [y = tensor({kTokens, kWidth}, t), ids = tensor({kTokens}, Dtype::i32),
              table = tensor({256, kWidth}, t)](Context& c) {
        ops::embedding_forward(c, y, ids, table, {}, kTokens);
      };
    });
    add("embedding_backward", 0, rows, [=, this] {
      return [dy = tensor({kTokens, kWidth}, t), ids = tensor({kTokens}, Dtype::i32),
              table = tensor({256, kWidth}, Dtype::f32)](Context& c) {
        ops::embedding_backward(c, table, {}, dy, ids, kTokens);
      };
    });
  }

  // The optimizer and the norm; in bf16 with f32 gradients and the 16-bit copy.
  void register_parameters() {
    const ops::AdamWStep step{1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 1};
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      dtype_ = dtype;
      const bool rounds = dtype != Dtype::f32;
      add("adamw", 0, static_cast<double>(kParameters) * (7 * 4 + (rounds ? 2 : 0)),
          [=, this] {
            return [=, w = tensor({kParameters}, Dtype::f32),
                    m = tensor({kParameters}, Dtype::f32),
                    v = tensor({kParameters}, Dtype::f32),
                    g = tensor({kParameters}, Dtype::f32),
                    low = rounds ? tensor({kParameters}, dtype) : TensorView{}](
                       Context& c) { ops::adamw(c, w, low, m, v, g, step); };
          });
    }
    dtype_ = Dtype::f32;
    add("sum_of_squares", 0, 4.0 * static_cast<double>(kParameters), [this] {
      return [x = tensor({kParameters}, Dtype::f32)](Context& c) {
        benchmark::DoNotOptimize(ops::sum_of_powers(c, x, 2.0));
      };
    });
  }

  Device device_;
  Arena saved_, scratch_;
  Context ctx_;
  Ceilings ceilings_;
  Dtype dtype_ = Dtype::f32;
};

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  llmtrain::Bench bench;
  bench.register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
