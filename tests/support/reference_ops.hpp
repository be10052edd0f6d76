// The ops again, naively and in double: what the fast kernels are compared with.
//
// Tensors are flat row-major vectors; names and shapes are those of llmtrain/ops/.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "llmtrain/ops/attention.hpp"
#include "llmtrain/ops/norm.hpp"
#include "llmtrain/ops/rope.hpp"

namespace llmtrain::reference {

using Values = std::vector<double>;
using Labels = std::vector<std::int32_t>;

// df/dx by central differences; in double its own error is about 1e-9 of the values.
inline Values numerical_gradient(const std::function<double(const Values&)>& f,
                                 Values x) {
  constexpr double kStep = 1e-5;
  Values gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double above = f(x);
    x[i] = kept - kStep;
    const double below = f(x);
    x[i] = kept;
    gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct MatmulShape {
  index_t m, n, k;
  bool a_transposed = false, b_transposed = false;
};

inline Values matmul(const Values& a, const Values& b, const MatmulShape& s) {
  Values out(s.m * s.n, 0.0);
  for (index_t i = 0; i < s.m; ++i) {
    for (index_t j = 0; j < s.n; ++j) {
      for (index_t k = 0; k < s.k; ++k) {
        out[i * s.n + j] += a[s.a_transposed ? k * s.m + i : i * s.k + k] *
                            b[s.b_transposed ? j * s.k + k : k * s.n + j];
      }
    }
  }
  return out;
}

inline double gelu(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}

inline Values swiglu(const Values& gate_up, index_t tokens, index_t width) {
  Values y(tokens * width);
  for (index_t t = 0; t < tokens; ++t) {
    for (index_t c = 0; c < width; ++c) {
      const double gate = gate_up[t * 2 * width + c];
      y[t * width + c] = gate / (1 + std::exp(-gate)) * gate_up[(t * 2 + 1) * width + c];
    }
  }
  return y;
}

struct NormResult {
  Values y, statistics;
};

// Without a bias when it is empty.
inline NormResult norm(ops::NormKind kind, double epsilon, const Values& r,
                       const Values& weight, const Values& bias) {
  const std::size_t width = weight.size(), tokens = r.size() / width;
  NormResult result{Values(r.size()), Values(2 * tokens)};
  for (std::size_t t = 0; t < tokens; ++t) {
    const double* const row = r.data() + t * width;
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < width && kind == ops::NormKind::layer; ++c) {
      mean += row[c] / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      variance += (row[c] - mean) * (row[c] - mean) / static_cast<double>(width);
    }
    const double rstd = 1 / std::sqrt(variance + epsilon);
    for (std::size_t c = 0; c < width; ++c) {
      result.y[t * width + c] =
          (row[c] - mean) * rstd * weight[c] + (bias.empty() ? 0.0 : bias[c]);
    }
    result.statistics[2 * t] = mean;
    result.statistics[2 * t + 1] = rstd;
  }
  return result;
}

inline Values cross_entropy(const Values& logits, const Labels& labels, index_t columns,
                            index_t vocabulary) {
  Values losses(labels.size(), 0.0);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] < 0) continue;
    const double* const row = logits.data() + t * columns;
    double largest = row[0], sum = 0;
    for (index_t i = 0; i < vocabulary; ++i) largest = std::max(largest, row[i]);
    for (index_t i = 0; i < vocabulary; ++i) sum += std::exp(row[i] - largest);
    losses[t] = largest + std::log(sum) - row[labels[t]];
  }
  return losses;
}

inline Values rope(Values x, index_t columns, double theta, const ops::RopeShape& shape,
                   double sign) {
  const index_t half = shape.head_dim / 2;
  for (std::size_t t = 0; t * columns < x.size(); ++t) {
    const double position =
        static_cast<double>(t % shape.seq_len + shape.position_offset);
    for (index_t head = 0; head < shape.heads; ++head) {
      for (index_t i = 0; i < half; ++i) {
        const double angle = sign * position * std::pow(theta, -2.0 * i / shape.head_dim);
        double& low = x[t * columns + head * shape.head_dim + i];
        double& high = (&low)[half];
        const double a = low, b = high;
        low = a * std::cos(angle) - b * std::sin(angle);
        high = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return x;
}

// The factor of one element by the definition in dropout.hpp.
inline double dropout_factor(const ops::Dropout& dropout, index_t sequence,
                             index_t element) {
  if (dropout.probability == 0.0f) return 1.0;
  const PhiloxBlock draws =
      philox_at(dropout.key, static_cast<std::uint64_t>(element) / 4,
                dropout.positions[static_cast<std::size_t>(sequence)], dropout.step);
  return uniform_float(draws[element % 4]) < dropout.probability
             ? 0.0
             : 1.0 / (1.0 - static_cast<double>(dropout.probability));
}

inline Values dropout(Values x, const ops::Dropout& dropout) {
  const auto count = static_cast<index_t>(x.size());
  const index_t per_sequence = count / static_cast<index_t>(dropout.positions.size());
  for (index_t i = 0; i < count; ++i) {
    x[i] *= dropout_factor(dropout, i / per_sequence, i % per_sequence);
  }
  return x;
}

struct AttentionProblem {
  ops::AttentionShape shape;
  Labels document_starts;  // empty: plain causal
  ops::Dropout dropout;

  index_t first_key(index_t sequence, index_t query) const {
    return document_starts.empty() ? 0
                                   : document_starts[sequence * shape.seq_len + query];
  }
  // Where query head h, or the key or value head that it reads, begins in qkv.
  index_t q(index_t b, index_t t, index_t h) const { return at(b, t, h); }
  index_t k(index_t b, index_t t, index_t h) const {
    return at(b, t, shape.heads + h / (shape.heads / shape.kv_heads));
  }
  index_t v(index_t b, index_t t, index_t h) const {
    return at(b, t, shape.heads + shape.kv_heads + h / (shape.heads / shape.kv_heads));
  }
  index_t out(index_t b, index_t t, index_t h) const {
    return ((b * shape.seq_len + t) * shape.heads + h) * shape.head_dim;
  }
  double factor(index_t b, index_t h, index_t query, index_t key) const {
    return dropout_factor(dropout, b, (h * shape.seq_len + query) * shape.seq_len + key);
  }

 private:
  index_t at(index_t b, index_t t, index_t head) const {
    return (b * shape.seq_len + t) * shape.columns() + head * shape.head_dim;
  }
};

struct AttentionResult {
  Values out, lse;
};

// Probabilities of one query over keys [first_key, query], and their log-sum-exp.
inline Values probabilities(const AttentionProblem& p, const Values& qkv, index_t b,
                            index_t h, index_t query, double* lse) {
  const index_t begin = p.first_key(b, query);
  Values scores;
  double largest = -INFINITY, sum = 0;
  for (index_t key = begin; key <= query; ++key) {
    double score = 0;
    for (index_t d = 0; d < p.shape.head_dim; ++d) {
      score += qkv[p.q(b, query, h) + d] * qkv[p.k(b, key, h) + d];
    }
    scores.push_back(score / std::sqrt(static_cast<double>(p.shape.head_dim)));
    largest = std::max(largest, scores.back());
  }
  for (const double score : scores) sum += std::exp(score - largest);
  *lse = largest + std::log(sum);
  for (double& score : scores) score = std::exp(score - *lse);
  return scores;
}

inline AttentionResult attention(const AttentionProblem& p, const Values& qkv) {
  const auto& s = p.shape;
  AttentionResult result{Values(s.sequences * s.seq_len * s.heads * s.head_dim, 0.0),
                         Values(s.sequences * s.heads * s.seq_len)};
  for (index_t b = 0; b < s.sequences; ++b) {
    for (index_t h = 0; h < s.heads; ++h) {
      for (index_t query = 0; query < s.seq_len; ++query) {
        double* const lse = &result.lse[(b * s.heads + h) * s.seq_len + query];
        const Values weights = probabilities(p, qkv, b, h, query, lse);
        for (index_t key = p.first_key(b, query); key <= query; ++key) {
          const double weight =
              weights[key - p.first_key(b, query)] * p.factor(b, h, query, key);
          for (index_t d = 0; d < s.head_dim; ++d) {
            result.out[p.out(b, query, h) + d] += weight * qkv[p.v(b, key, h) + d];
          }
        }
      }
    }
  }
  return result;
}

// dqkv by the chain rule, query by query.
inline Values attention_gradient(const AttentionProblem& p, const Values& qkv,
                                 const Values& dout) {
  const auto& s = p.shape;
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  Values dqkv(qkv.size(), 0.0);
  for (index_t b = 0; b < s.sequences; ++b) {
    for (index_t h = 0; h < s.heads; ++h) {
      for (index_t query = 0; query < s.seq_len; ++query) {
        const index_t begin = p.first_key(b, query);
        double lse = 0, delta = 0;
        const Values weights = probabilities(p, qkv, b, h, query, &lse);
        Values dweights(weights.size(), 0.0);
        for (index_t key = begin; key <= query; ++key) {
          const double weight = weights[key - begin], factor = p.factor(b, h, query, key);
          double& dweight = dweights[key - begin];
          for (index_t d = 0; d < s.head_dim; ++d) {
            const double grad = dout[p.out(b, query, h) + d];
            dweight += factor * grad * qkv[p.v(b, key, h) + d];
            dqkv[p.v(b, key, h) + d] += weight * factor * grad;
          }
          delta += weight * dweight;
        }
        for (index_t key = begin; key <= query; ++key) {
          const double dscore =
              scale * weights[key - begin] * (dweights[key - begin] - delta);
          for (index_t d = 0; d < s.head_dim; ++d) {
            dqkv[p.q(b, query, h) + d] += dscore * qkv[p.k(b, key, h) + d];
            dqkv[p.k(b, key, h) + d] += dscore * qkv[p.q(b, query, h) + d];
          }
        }
      }
    }
  }
  return dqkv;
}

}  // namespace llmtrain::reference
