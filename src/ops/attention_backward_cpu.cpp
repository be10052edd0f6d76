// Attention backward on the CPU: Dao et al. 2022, algorithm 4, with one thread for each
// (sequence, key/value head), which goes through the query heads of its group in order.
//
// Legend as in attention_tiles.hpp; S scores, P probabilities, M dropout factors, O out:
// dV = (P M)^T dO;  dP = M (dO V^T);  dS = P (dP - delta), delta = rowsum(dO O);
// dK = dS^T Q / sqrt(D);  dQ = dS K / sqrt(D).
#include <omp.h>

#include "ops/attention_tiles.hpp"
#include "ops/fast_exp.hpp"

namespace llmtrain::ops::cpu {
namespace {

// One thread's scratch.
struct Workspace {
  Workspace(const AttentionShape& shape, float* base) {
    Carver carver(base);
    const index_t padded_dim = round_up(shape.head_dim, kLanes);
    const index_t padded_len = round_up(shape.seq_len, kKeys);
    queries = carver.take(padded_len * padded_dim);
    dout = carver.take(padded_len * padded_dim);
    dqueries = carver.take(padded_len * padded_dim);
    delta = carver.take(padded_len);
    keys = carver.take(kKeys * padded_dim);
    keys_t = carver.take(kKeys * shape.head_dim);
    values_t = carver.take(kKeys * shape.head_dim);
    dkeys = carver.take(padded_len * padded_dim);
    dvalues = carver.take(padded_len * padded_dim);
    probabilities = carver.take(kQueries * kKeys);
    dscores = carver.take(kQueries * kKeys);
    floats = carver.used();
  }
  float *queries, *dout,
      *dqueries;             // [T, P] of one query head, queries scaled by 1 / sqrt(D)
  float* delta;              // [T]
  float *dkeys, *dvalues;    // [T, P], sums over the query heads of the group
  float* keys;               // [kKeys, P]
  float *keys_t, *values_t;  // [D, kKeys]
  float *probabilities, *dscores;  // [kQueries, kKeys]
  index_t floats;
};

template <class T>
class Backward {
 public:
  Backward(TensorView dqkv, TensorView dout, TensorView qkv, TensorView out,
           TensorView lse, const AttentionShape& shape, const AttentionMask& mask,
           const Dropout& dropout)
      : dqkv_(dqkv),
        dout_(dout),
        qkv_(qkv),
        out_(out),
        lse_(lse),
        shape_(shape),
        mask_(mask),
        dropout_(dropout),
        factors_(dropout),
        padded_dim_(round_up(shape.head_dim, kLanes)),
        scale_(1.0f / std::sqrt(static_cast<float>(shape.head_dim))) {}

  void group(index_t sequence, index_t kv_head, Workspace& work) const {
    const index_t group_size = shape_.heads / shape_.kv_heads;
    const Visibility visible(mask_, sequence, shape_.seq_len);
    const index_t rows = round_up(shape_.seq_len, kKeys);
    std::fill_n(work.dkeys, rows * padded_dim_, 0.0f);
    std::fill_n(work.dvalues, rows * padded_dim_, 0.0f);
    for (index_t i = 0; i < group_size; ++i) {
      const index_t head = kv_head * group_size + i;
      pack_head(sequence, head, work);
      for (index_t first = 0; first < shape_.seq_len; first += kKeys) {
        key_tile(sequence, head, kv_head, first, visible, work);
      }
      write_rows(sequence, head, work.dqueries, scale_);
    }
    write_rows(sequence, shape_.heads + kv_head, work.dkeys, 1.0f);
    write_rows(sequence, shape_.heads + shape_.kv_heads + kv_head, work.dvalues, 1.0f);
  }

 private:
  HeadRows<const T> columns(TensorView tensor, index_t sequence, index_t head) const {
    return head_rows<const T>(tensor, shape_, sequence, head);
  }

  void pack_head(index_t sequence, index_t head, Workspace& work) const {
    const index_t len = shape_.seq_len, rows = round_up(len, kQueries);
    const auto dout = columns(dout_, sequence, head), out = columns(out_, sequence, head);
    pack_rows(work.queries, columns(qkv_, sequence, head), 0, len, rows, shape_.head_dim,
              padded_dim_, scale_);
    pack_rows(work.dout, dout, 0, len, rows, shape_.head_dim, padded_dim_, 1.0f);
    std::fill_n(work.dqueries, rows * padded_dim_, 0.0f);
    for (index_t t = 0; t < len; ++t) {
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (index_t d = 0; d < shape_.head_dim; ++d) {
        sum += to_float(dout.row(t)[d]) * to_float(out.row(t)[d]);
      }
      work.delta[t] = sum;
    }
  }

  // Gradients of one tile of keys and values from one query head, and its part of
  // dqueries.
  void key_tile(index_t sequence, index_t head, index_t kv_head, index_t key,
                const Visibility& visible, Workspace& work) const {
    const index_t valid = std::min(kKeys, shape_.seq_len - key);
    const auto k = columns(qkv_, sequence, shape_.heads + kv_head);
    const auto v = columns(qkv_, sequence, shape_.heads + shape_.kv_heads + kv_head);
    pack_rows(work.keys, k, key, valid, kKeys, shape_.head_dim, padded_dim_, 1.0f);
    pack_transposed(work.keys_t, k, key, valid, shape_.head_dim);
    pack_transposed(work.values_t, v, key, valid, shape_.head_dim);
    for (index_t query = key; query < shape_.seq_len; query += kQueries) {
      const Visibility::Starts starts = visible.starts(query);
      if (starts.least >= key + kKeys) continue;
      tile(sequence, head, key, query, starts, visible, work);
    }
  }

  void tile(index_t sequence, index_t head, index_t key, index_t query,
            Visibility::Starts starts, const Visibility& visible, Workspace& work) const {
    const float* const queries = work.queries + query * padded_dim_;
    const float* const dout = work.dout + query * padded_dim_;
    std::fill_n(work.probabilities, kQueries * kKeys, 0.0f);
    std::fill_n(work.dscores, kQueries * kKeys, 0.0f);
    multiply_add(work.probabilities, kKeys, {queries, padded_dim_, 1}, work.keys_t, kKeys,
                 kQueries, kKeys, shape_.head_dim);
    multiply_add(work.dscores, kKeys, {dout, padded_dim_, 1}, work.values_t, kKeys,
                 kQueries, kKeys, shape_.head_dim);
    const bool masked = needs_mask(starts, query, key);
    for (index_t i = 0; i < kQueries; ++i) {
      const index_t q = query + i;
      float* const p = work.probabilities + i * kKeys;
      float* const ds = work.dscores + i * kKeys;
      if (q >= shape_.seq_len) {
        std::fill_n(p, kKeys, 0.0f);
        std::fill_n(ds, kKeys, 0.0f);
        continue;
      }
      soften(p, sequence, head, q);
      if (masked) hide(p, visible.start(q) - key, q - key + 1);
      if (dropout_.probability > 0.0f) {
        differentiate_dropped(p, ds, sequence, head, q, key, work.delta[q]);
      } else {
        const float delta = work.delta[q];
#pragma omp simd
        for (index_t j = 0; j < kKeys; ++j) ds[j] = p[j] * (ds[j] - delta);
      }
    }
    multiply_add(work.dvalues + key * padded_dim_, padded_dim_,
                 {work.probabilities, 1, kKeys}, dout, padded_dim_, kKeys, padded_dim_,
                 kQueries);
    multiply_add(work.dkeys + key * padded_dim_, padded_dim_, {work.dscores, 1, kKeys},
                 queries, padded_dim_, kKeys, padded_dim_, kQueries);
    multiply_add(work.dqueries + query * padded_dim_, padded_dim_,
                 {work.dscores, kKeys, 1}, work.keys, padded_dim_, kQueries, padded_dim_,
                 kKeys);
  }

  void soften(float* scores, index_t sequence, index_t head, index_t query) const {
    const float lse =
        lse_.data<float>()[(sequence * shape_.heads + head) * shape_.seq_len + query];
#pragma omp simd
    for (index_t j = 0; j < kKeys; ++j) scores[j] = fast_exp(scores[j] - lse);
  }

  static void hide(float* probabilities, index_t begin, index_t end) {
#pragma omp simd
    for (index_t j = 0; j < kKeys; ++j) {
      probabilities[j] = j >= begin && j < end ? probabilities[j] : 0.0f;
    }
  }

  // p becomes P M, and ds becomes dS.
  void differentiate_dropped(float* p, float* ds, index_t sequence, index_t head,
                             index_t query, index_t key, float delta) const {
    const index_t len = shape_.seq_len;
    alignas(64) float factors[kKeys];
    factors_.draw(factors, (head * len + query) * len + key, kKeys,
                  dropout_.positions[sequence]);
#pragma omp simd
    for (index_t j = 0; j < kKeys; ++j) {
      ds[j] = p[j] * (factors[j] * ds[j] - delta);
      p[j] *= factors[j];
    }
  }

  void write_rows(index_t sequence, index_t head, const float* from, float scale) const {
    const HeadRows<T> to = head_rows<T>(dqkv_, shape_, sequence, head);
    for (index_t t = 0; t < shape_.seq_len; ++t, from += padded_dim_) {
      T* const row = to.row(t);
#pragma omp simd
      for (index_t d = 0; d < shape_.head_dim; ++d) {
        row[d] = from_float<T>(scale * from[d]);
      }
    }
  }

  TensorView dqkv_, dout_, qkv_, out_, lse_;
  const AttentionShape& shape_;
  const AttentionMask& mask_;
  const Dropout& dropout_;
  DropoutFactors factors_;
  index_t padded_dim_;
  float scale_;
};

}  // namespace

Shape attention_backward_scratch(const AttentionShape& shape) {
  return {std::min<index_t>(omp_get_max_threads(), shape.sequences * shape.kv_heads),
          Workspace(shape, nullptr).floats};
}

void attention_backward(TensorView dqkv, TensorView dout, TensorView qkv, TensorView out,
                        TensorView lse, const AttentionShape& shape,
                        const AttentionMask& mask, const Dropout& dropout,
                        TensorView scratch) {
  const int threads = static_cast<int>(scratch.shape()[0]);
  if (threads == 0) return;
  with_type(qkv.dtype(), [&]<class T>(TypeTag<T>) {
    const Backward<T> backward(dqkv, dout, qkv, out, lse, shape, mask, dropout);
#pragma omp parallel num_threads(threads)
    {
      Workspace work(shape,
                     scratch.data<float>() + omp_get_thread_num() * scratch.shape()[1]);
#pragma omp for schedule(static)
      for (index_t i = 0; i < shape.sequences * shape.kv_heads; ++i) {
        backward.group(i / shape.kv_heads, i % shape.kv_heads, work);
      }
    }
  });
}

}  // namespace llmtrain::ops::cpu
