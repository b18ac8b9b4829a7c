// The float64 operators: loops as in the formulas, nothing clever.
#include "ops/reference/operators.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/error.hpp"

namespace fovea::ops::reference {
namespace {

using Vector = std::vector<double>;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

Vector read_row(const ConstTensorView& view, std::int64_t row, std::int64_t width) {
  Vector values(at(width));
  for (std::int64_t i = 0; i < width; ++i) {
    values[at(i)] = load(view, row * width + i);
  }
  return values;
}

Vector forward(const LinearWeights& weights, const Vector& x) {
  Vector y(at(weights.out));
  for (std::int64_t o = 0; o < weights.out; ++o) {
    double sum = weights.bias[at(o)];
    for (std::int64_t i = 0; i < weights.in; ++i) {
      sum += static_cast<double>(weights.weight[at(o * weights.in + i)]) * x[at(i)];
    }
    y[at(o)] = sum;
  }
  return y;
}

Vector forward(const LayerNormWeights& weights, double eps, const Vector& x) {
  double mean = 0;
  for (const double value : x) {
    mean += value;
  }
  mean /= static_cast<double>(x.size());
  double variance = 0;
  for (const double value : x) {
    variance += (value - mean) * (value - mean);
  }
  variance /= static_cast<double>(x.size());
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + eps) * weights.weight[i] + weights.bias[i];
  }
  return y;
}

void softmax(Vector& scores) {
  const double peak = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) {
    score = std::exp(score - peak);
    sum += score;
  }
  for (double& score : scores) {
    score /= sum;
  }
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

void attention(const AttentionProblem& problem, const ConstTensorView& qkv,
               const TensorView& output) {
  const std::int64_t hidden = problem.hidden();
  const std::int64_t n = problem.tokens;
  // Which: 0 for q, 1 for k, 2 for v.
  const auto element = [&](std::int64_t image, std::int64_t token, std::int64_t which,
                           std::int64_t head, std::int64_t i) {
    const std::int64_t row = image * n + token;
    return load(qkv, (row * 3 + which) * hidden + head * problem.head_dim + i);
  };
  for (std::int64_t image = 0; image < problem.images; ++image) {
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      for (std::int64_t query = 0; query < n; ++query) {
        Vector scores(at(n));
        for (std::int64_t key = 0; key < n; ++key) {
          double dot = 0;
          for (std::int64_t i = 0; i < problem.head_dim; ++i) {
            dot += element(image, query, 0, head, i) * element(image, key, 1, head, i);
          }
          scores[at(key)] = dot * problem.scale;
        }
        softmax(scores);
        for (std::int64_t i = 0; i < problem.head_dim; ++i) {
          double sum = 0;
          for (std::int64_t key = 0; key < n; ++key) {
            sum += scores[at(key)] * element(image, key, 2, head, i);
          }
          store(output, (image * n + query) * hidden + head * problem.head_dim + i, sum);
        }
      }
    }
  }
}

void pool(const PoolProblem& problem, const PoolWeights& weights, const ConstTensorView& input,
          const TensorView& output) {
  const std::int64_t hidden = problem.hidden;
  const std::int64_t n = problem.tokens;
  for (std::int64_t image = 0; image < problem.images; ++image) {
    std::vector<Vector> tokens;
    for (std::int64_t token = 0; token < n; ++token) {
      Vector x = read_row(input, image * n + token, hidden);
      tokens.push_back(problem.norm ? forward(weights.input_norm, problem.eps, x) : std::move(x));
    }
    Vector values(at(hidden));
    for (std::int64_t head = 0; head < problem.heads; ++head) {
      Vector scores(at(n));
      for (std::int64_t token = 0; token < n; ++token) {
        double dot = 0;
        for (std::int64_t i = 0; i < hidden; ++i) {
          dot += tokens[at(token)][at(i)] * weights.key[at(head * hidden + i)];
        }
        scores[at(token)] = dot;
      }
      softmax(scores);
      Vector mean(at(hidden));
      for (std::int64_t token = 0; token < n; ++token) {
        for (std::int64_t i = 0; i < hidden; ++i) {
          mean[at(i)] += scores[at(token)] * tokens[at(token)][at(i)];
        }
      }
      for (std::int64_t o = head * problem.head_dim(); o < (head + 1) * problem.head_dim(); ++o) {
        double sum = weights.value.bias[at(o)];
        for (std::int64_t i = 0; i < hidden; ++i) {
          sum += static_cast<double>(weights.value.weight[at(o * hidden + i)]) * mean[at(i)];
        }
        values[at(o)] = sum;
      }
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

}  // namespace fovea::ops::reference
