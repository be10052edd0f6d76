// Attention forward on the CPU: Dao et al. 2022, algorithm 1, with one thread for each
// (sequence, head).
//
// Legend as in attention_tiles.hpp; S scores, then probabilities, of a tile.
#include <omp.h>

#include <limits>

#include "ops/attention_tiles.hpp"
#include "ops/fast_exp.hpp"
#include "ops/largest.hpp"

namespace llmtrain::ops::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One thread's scratch.
struct Workspace {
  Workspace(const AttentionShape& shape, float* base) {
    Carver carver(base);
    const index_t padded_dim = round_up(shape.head_dim, kLanes);
    const index_t padded_len = round_up(shape.seq_len, kKeys);
    keys = carver.take(padded_len * shape.head_dim);
    values = carver.take(padded_len * padded_dim);
    queries = carver.take(kQueries * padded_dim);
    out = carver.take(kQueries * padded_dim);
    scores = carver.take(kQueries * kKeys);
    floats = carver.used();
  }
  float* keys;     // transposed, a tile [D, kKeys] after another
  float* values;   // [T, P]
  float* queries;  // [kQueries, P], scaled by 1 / sqrt(D)
  float* out;      // [kQueries, P], not yet normalised
  float* scores;   // [kQueries, kKeys]
  index_t floats;
};

struct RowState {
  float largest = kMinusInfinity, sum = 0.0f;
};

// Turns a row of scores into exp(score - largest so far), adds them to the sum, and
// returns the factor that brings earlier sums to the new maximum. Invisible keys become
// 0.
float soften(float* scores, RowState& state) {
  const float top = largest(scores, kKeys, state.largest);
  if (top == kMinusInfinity) {  // nothing visible yet
    std::fill_n(scores, kKeys, 0.0f);
    return 1.0f;
  }
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (index_t j = 0; j < kKeys; ++j) {
    scores[j] = fast_exp(scores[j] - top);
    sum += scores[j];
  }
  const float correction = fast_exp(state.largest - top);
  state.sum = state.sum * correction + sum;
  state.largest = top;
  return correction;
}

template <class T>
class Forward {
 public:
  Forward(TensorView out, TensorView lse, TensorView qkv, const AttentionShape& shape,
          const AttentionMask& mask, const Dropout& dropout)
      : out_(out),
        lse_(lse),
        qkv_(qkv),
        shape_(shape),
        mask_(mask),
        dropout_(dropout),
        factors_(dropout),
        padded_dim_(round_up(shape.head_dim, kLanes)) {}

  void head(index_t sequence, index_t head, Workspace& work) const {
    pack_keys_and_values(sequence, head, work);
    const Visibility visible(mask_, sequence, shape_.seq_len);
    for (index_t first = 0; first < shape_.seq_len; first += kQueries) {
      query_tile(sequence, head, first, visible, work);
    }
  }

 private:
  HeadRows<const T> columns(index_t sequence, index_t head) const {
    return head_rows<const T>(qkv_, shape_, sequence, head);
  }

  void pack_keys_and_values(index_t sequence, index_t head, Workspace& work) const {
    const index_t kv_head = head / (shape_.heads / shape_.kv_heads);
    const auto k = columns(sequence, shape_.heads + kv_head);
    const auto v = columns(sequence, shape_.heads + shape_.kv_heads + kv_head);
    for (index_t first = 0; first < shape_.seq_len; first += kKeys) {
      const index_t valid = std::min(kKeys, shape_.seq_len - first);
      pack_transposed(work.keys + first * shape_.head_dim, k, first, valid,
                      shape_.head_dim);
      pack_rows(work.values + first * padded_dim_, v, first, valid, kKeys,
                shape_.head_dim, padded_dim_, 1.0f);
    }
  }

  void query_tile(index_t sequence, index_t head, index_t first,
                  const Visibility& visible, Workspace& work) const {
    const index_t valid = std::min(kQueries, shape_.seq_len - first);
    pack_rows(work.queries, columns(sequence, head), first, valid, kQueries,
              shape_.head_dim, padded_dim_,
              1.0f / std::sqrt(static_cast<float>(shape_.head_dim)));
    std::fill_n(work.out, kQueries * padded_dim_, 0.0f);
    RowState rows[kQueries];
    const Visibility::Starts starts = visible.starts(first);
    for (index_t key = starts.least / kKeys * kKeys; key < first + valid; key += kKeys) {
      std::fill_n(work.scores, kQueries * kKeys, 0.0f);
      multiply_add(work.scores, kKeys, {work.queries, padded_dim_, 1},
                   work.keys + key * shape_.head_dim, kKeys, kQueries, kKeys,
                   shape_.head_dim);
      if (needs_mask(starts, first, key)) hide(work.scores, visible, first, valid, key);
      for (index_t i = 0; i < valid; ++i) {
        const float correction = soften(work.scores + i * kKeys, rows[i]);
        float* const out = work.out + i * padded_dim_;
        if (correction == 1.0f) continue;
#pragma omp simd
        for (index_t d = 0; d < padded_dim_; ++d) out[d] *= correction;
      }
      if (dropout_.probability > 0.0f)
        drop(work.scores, sequence, head, first, valid, key);
      multiply_add(work.out, padded_dim_, {work.scores, kKeys, 1},
                   work.values + key * padded_dim_, padded_dim_, kQueries, padded_dim_,
                   kKeys);
    }
    write(sequence, head, first, valid, rows, work.out);
  }

  void hide(float* scores, const Visibility& visible, index_t first, index_t valid,
            index_t key) const {
    for (index_t i = 0; i < valid; ++i) {
      const auto begin = static_cast<int>(visible.start(first + i) - key);
      const auto end = static_cast<int>(first + i - key + 1);
#pragma omp simd
      for (int j = 0; j < kKeys; ++j) {
        scores[i * kKeys + j] =
            j >= begin && j < end ? scores[i * kKeys + j] : kMinusInfinity;
      }
    }
  }

  void drop(float* scores, index_t sequence, index_t head, index_t first, index_t valid,
            index_t key) const {
    const index_t len = shape_.seq_len;
    for (index_t i = 0; i < valid; ++i) {
      alignas(64) float factors[kKeys];
      factors_.draw(factors, (head * len + first + i) * len + key, kKeys,
                    dropout_.positions[sequence]);
#pragma omp simd
      for (index_t j = 0; j < kKeys; ++j) scores[i * kKeys + j] *= factors[j];
    }
  }

  void write(index_t sequence, index_t head, index_t first, index_t valid,
             const RowState* rows, const float* from) const {
    const HeadRows<T> out = head_rows<T>(out_, shape_, sequence, head);
    float* const lse =
        lse_.data<float>() + (sequence * shape_.heads + head) * shape_.seq_len + first;
    for (index_t i = 0; i < valid; ++i) {
      T* const to = out.row(first + i);
      const float inverse = 1.0f / rows[i].sum;
      lse[i] = rows[i].largest + std::log(rows[i].sum);
#pragma omp simd
      for (index_t d = 0; d < shape_.head_dim; ++d) {
        to[d] = from_float<T>(from[i * padded_dim_ + d] * inverse);
      }
    }
  }

  TensorView out_, lse_, qkv_;
  const AttentionShape& shape_;
  const AttentionMask& mask_;
  const Dropout& dropout_;
  DropoutFactors factors_;
  index_t padded_dim_;
};

}  // namespace

Shape attention_forward_scratch(const AttentionShape& shape) {
  return {std::min<index_t>(omp_get_max_threads(), shape.sequences * shape.heads),
          Workspace(shape, nullptr).floats};
}

void attention_forward(TensorView out, TensorView lse, TensorView qkv,
                       const AttentionShape& shape, const AttentionMask& mask,
                       const Dropout& dropout, TensorView scratch) {
  const int threads = static_cast<int>(scratch.shape()[0]);
  if (threads == 0) return;
  with_type(qkv.dtype(), [&]<class T>(TypeTag<T>) {
    const Forward<T> forward(out, lse, qkv, shape, mask, dropout);
#pragma omp parallel num_threads(threads)
    {
      Workspace work(shape,
                     scratch.data<float>() + omp_get_thread_num() * scratch.shape()[1]);
#pragma omp for schedule(static)
      for (index_t i = 0; i < shape.sequences * shape.heads; ++i) {
        forward.head(i / shape.heads, i % shape.heads, work);
      }
    }
  });
}

}  // namespace llmtrain::ops::cpu
