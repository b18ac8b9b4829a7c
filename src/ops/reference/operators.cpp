// The float64 operators: loops as in the formulas, nothing clever.
#include "ops/reference/operators.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::ops::reference {
namespace {

using Vector = std::vector<double>;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

Vector read_row(const ConstTensorView& view, std::int64_t row, std::int64_t width) {
  Vector values(at(width));
  for (std::int64_t i = 0; i < width; ++i) {
    values[at(i)] = load(view, row * width + i);
  }
  return values;
}

/// Rows first, first + step, ... of `width` elements, one after the other.
Vector read_rows(const ConstTensorView& view, std::int64_t first, std::int64_t step,
                 std::int64_t count, std::int64_t width) {
  Vector values;
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      values.push_back(load(view, first + row * step + i));
    }
  }
  return values;
}

Vector forward(const LinearWeights& weights, std::span<const double> x, std::int64_t first,
               std::int64_t count) {
  Vector y;
  for (std::int64_t o = first; o < first + count; ++o) {
    y.push_back(weights.bias[at(o)] +
                dot<double>(weights.weight.subspan(at(o * weights.in), at(weights.in)), x));
  }
  return y;
}

Vector forward(const LinearWeights& weights, std::span<const double> x) {
  return forward(weights, x, 0, weights.out);
}

Vector forward(const LayerNormWeights& weights, double eps, std::span<const double> x) {
  Vector y(x.size());
  normalise_row<double>(x, moments_of<double>(x), eps, weights.weight, weights.bias, y);
  return y;
}

}  // namespace

double load(const ConstTensorView& view, std::int64_t index) {
  switch (view.dtype) {
    case DType::kU8:
      return view.as<std::uint8_t>()[index];
    case DType::kI8:
      return view.as<std::int8_t>()[index];
    case DType::kE4M3:
      return to_float(view.as<Float8E4M3>()[index]);
    case DType::kF16:
      return to_float(view.as<Float16>()[index]);
    case DType::kBF16:
      return to_float(view.as<BFloat16>()[index]);
    case DType::kF32:
      return view.as<float>()[index];
    case DType::kF64:
      return view.as<double>()[index];
  }
  fail("a view of an unknown type");
}

void store(const TensorView& view, std::int64_t index, double value) {
  switch (view.dtype) {
    case DType::kU8:
    case DType::kI8:
      fail("float64 results are not stored as {}", to_string(view.dtype));
    case DType::kE4M3:
      view.as<Float8E4M3>()[index] = to_e4m3(static_cast<float>(value));
      return;
    case DType::kF16:
      view.as<Float16>()[index] = to_float16(static_cast<float>(value));
      return;
    case DType::kBF16:
      view.as<BFloat16>()[index] = to_bfloat16(static_cast<float>(value));
      return;
    case DType::kF32:
      view.as<float>()[index] = static_cast<float>(value);
      return;
    case DType::kF64:
      view.as<double>()[index] = value;
      return;
  }
}

void patch_embed(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
                 const ConstTensorView& patches, const TensorView& tokens) {
  for (std::int64_t row = 0; row < problem.rows(); ++row) {
    Vector x = read_row(patches, row, problem.patch_elements);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x[i] * weights.scale[i % 3] + weights.shift[i % 3];
    }
    const Vector y = forward(weights.projection, x);
    const std::int64_t position = row % problem.tokens * problem.hidden;
    for (std::int64_t o = 0; o < problem.hidden; ++o) {
      store(tokens, row * problem.hidden + o, y[at(o)] + weights.position[at(position + o)]);
    }
  }
}

void layer_norm(const LayerNormProblem& problem, const LayerNormWeights& weights,
                const ConstTensorView& input, const TensorView& output) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const Vector y = forward(weights, problem.eps, read_row(input, row, problem.width));
    for (std::int64_t i = 0; i < problem.width; ++i) {
      store(output, row * problem.width + i, y[at(i)]);
    }
  }
}

void linear(const LinearProblem& problem, const LinearWeights& weights,
            const ConstTensorView& input, const TensorView& output) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    Vector x = read_row(input, row, problem.in);
    if (problem.norm) {
      x = forward(weights.norm, problem.eps, x);
    }
    const Vector y = forward(weights, x);
    for (std::int64_t o = 0; o < problem.out; ++o) {
      const std::int64_t index = row * problem.out + o;
      double value = y[at(o)];
      if (problem.epilogue == Epilogue::kGeluTanh) {
        value = gelu_tanh(value);
      } else if (problem.epilogue == Epilogue::kResidual) {
        value += load(output, index);
      }
      store(output, index, value);
    }
  }
}

void attention(const AttentionProblem& problem, const AttentionOperands& operands) {
  const std::int64_t width = problem.head_dim;
  const TensorView output{pointer<void>(operands.o), problem.type, {}};
  Vector y(at(width));
  for (std::int64_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      const std::int64_t kv_head = head * problem.key_heads() / problem.heads;
      const auto rows = [&](Address base, const AttentionStrides& strides, std::int64_t of_head,
                            std::int64_t count) {
        return read_rows({pointer<const void>(base), problem.type, {}},
                         sequence * strides.batch + of_head * strides.head, strides.row, count,
                         width);
      };
      const Vector queries = rows(operands.q, problem.q, head, problem.queries);
      const Vector keys = rows(operands.k, problem.k, kv_head, problem.keys);
      const Vector values = rows(operands.v, problem.v, kv_head, problem.keys);
      for (std::int64_t query = 0; query < problem.queries; ++query) {
        const std::int64_t last =
            problem.causal ? query + problem.keys - problem.queries : problem.keys - 1;
        const std::size_t seen = at(std::max<std::int64_t>(last + 1, 0) * width);
        attend_row<double>(std::span(queries).subspan(at(query * width), at(width)),
                           std::span(keys).first(seen), std::span(values).first(seen),
                           problem.scale, y);
        const std::int64_t to =
            sequence * problem.o.batch + head * problem.o.head + query * problem.o.row;
        for (std::int64_t i = 0; i < width; ++i) {
          store(output, to + i, y[at(i)]);
        }
      }
    }
  }
}

void pool(const PoolProblem& problem, const PoolWeights& weights, const ConstTensorView& input,
          const TensorView& output) {
  const std::int64_t hidden = problem.hidden;
  const std::int64_t n = problem.tokens;
  Vector mean(at(hidden));
  for (std::int64_t image = 0; image < problem.images; ++image) {
    Vector x = read_rows(input, image * n * hidden, hidden, n, hidden);
    for (std::int64_t token = 0; problem.norm && token < n; ++token) {
      const auto row = x.begin() + token * hidden;
      const Vector normed = forward(weights.input_norm, problem.eps, Vector(row, row + hidden));
      std::ranges::copy(normed, row);
    }
    Vector values;
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      const std::span<const float> key = weights.key.subspan(at(head * hidden), at(hidden));
      attend_row<double>(Vector(key.begin(), key.end()), x, x, 1.0, mean);
      const Vector part =
          forward(weights.value, mean, head * problem.head_dim(), problem.head_dim());
      values.insert(values.end(), part.begin(), part.end());
    }
    const Vector attended = forward(weights.out, values);
    Vector inner = forward(weights.fc1, forward(weights.norm, problem.eps, attended));
    std::transform(inner.begin(), inner.end(), inner.begin(), gelu_tanh);
    const Vector mlp = forward(weights.fc2, inner);
    for (std::int64_t i = 0; i < hidden; ++i) {
      store(output, image * hidden + i, attended[at(i)] + mlp[at(i)]);
    }
  }
}

void project(const ProjectProblem& problem, const ProjectWeights& weights,
             const ConstTensorView& input, const TensorView& output) {
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    const Vector x = read_row(input, sequence * problem.tokens + problem.token, problem.hidden);
    const Vector y = forward(weights.linear, forward(weights.norm, problem.eps, x));
    for (std::int64_t o = 0; o < problem.out; ++o) {
      store(output, sequence * problem.out + o, y[at(o)]);
    }
  }
}

}  // namespace fovea::ops::reference
