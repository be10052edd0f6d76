#include "llmtrain/optim/gradient_norm.hpp"

#include <algorithm>
#include <cmath>

#include "llmtrain/ops/reduce.hpp"

namespace llmtrain {

namespace {

double combine(double a, double b, double p) {
  // Written so that a NaN on either side survives.
  if (std::isinf(p)) return std::isnan(a) || a > b ? a : b;
  return a + b;
}

}  // namespace

double gradient_norm_partial(Context& ctx, Units& units, double p) {
  double partial = 0.0;
  const auto add = [&](TensorView gradients) {
    partial = combine(partial, ops::sum_of_powers(ctx, gradients, p), p);
  };
  for (int unit = 0; unit < units.count(); ++unit) {
    const UnitSlice slice = units.slice(unit);
    const auto& rows = slice.parameters->rows();
    if (std::ranges::all_of(rows, &ParameterRow::first_copy)) {
      add(slice.gradients);  // what lies between rows is zero
      continue;
    }
    for (const ParameterRow& row : rows) {
      const index_t begin = std::max(row.offset, slice.begin);
      const index_t end =
          std::min(row.offset + row.stored_count, slice.begin + slice.count());
      if (row.first_copy && begin < end) {
        add(slice.gradients.flat(begin - slice.begin, end - begin));
      }
    }
  }
  return partial;
}

double gradient_norm(const std::vector<double>& partials, double p) {
  double total = 0.0;
  for (const double partial : partials) total = combine(total, partial, p);
  return std::isinf(p) ? total : std::pow(total, 1.0 / p);
}

double clip_coefficient(double norm, double max_norm) {
  return max_norm > 0.0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace llmtrain
