// The float64 operators: loops as in the formulas, nothing clever.
#include "ops/reference/operators.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "ops/block_scales.hpp"
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

/// Where the scales of a matrix of kMXFP8 lie.
template <typename View>
BlockScales scales_of(const View& view) {
  return {view.shape[0], view.shape[1]};
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
    case DType::kMXFP8: {
      const BlockScales scales = scales_of(view);
      const std::int64_t place =
          scales.offset() + scales.place(index / scales.width, index % scales.width / kScaleBlock);
      return double{to_float(view.as<Float8E4M3>()[index])} *
             double{to_float(view.as<Float8E8M0>()[place])};
    }
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
    case DType::kMXFP8:
      fail("float64 results are not stored one by one as {}", to_string(view.dtype));
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

void store_row(const TensorView& view, std::int64_t row, std::span<const double> values) {
  const auto width = static_cast<std::int64_t>(values.size());
  if (view.dtype != DType::kMXFP8) {
    for (std::int64_t i = 0; i < width; ++i) {
      store(view, row * width + i, values[at(i)]);
    }
    return;
  }
  const BlockScales scales = scales_of(view);
  const std::vector<float> narrow(values.begin(), values.end());
  for (std::int64_t block = 0; block < scales.blocks(); ++block) {
    const std::int64_t first = block * kScaleBlock;
    const std::size_t count = at(std::min(kScaleBlock, width - first));
    view.as<Float8E8M0>()[scales.offset() + scales.place(row, block)] =
        round_block(std::span(narrow).subspan(at(first), count),
                    std::span(view.as<Float8E4M3>() + row * width + first, count));
  }
}

Vector interpolation(std::int64_t index, std::int64_t count, std::int64_t table) {
  const double scale = static_cast<double>(table) / static_cast<double>(count);
  const double centre = (static_cast<double>(index) + 0.5) * scale;
  Vector weights(at(table));
  double sum = 0;
  for (std::int64_t row = 0; row < table; ++row) {
    const double distance = std::abs(static_cast<double>(row) + 0.5 - centre);
    weights[at(row)] = std::max(0.0, 1.0 - distance / std::max(scale, 1.0));
    sum += weights[at(row)];
  }
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

namespace {

/// The position of each row of an image of height x width patches: (height * width, hidden).
Vector positions(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
                 std::int64_t height, std::int64_t width) {
  const std::int64_t side = problem.position_side;
  Vector found(at(height * width * problem.hidden));
  for (std::int64_t patch = 0; patch < height * width; ++patch) {
    const Vector down = interpolation(patch / width, height, side);
    const Vector across = interpolation(patch % width, width, side);
    for (std::int64_t cell = 0; cell < side * side; ++cell) {
      const double weight = down[at(cell / side)] * across[at(cell % side)];
      for (std::int64_t o = 0; weight > 0 && o < problem.hidden; ++o) {
        found[at(patch * problem.hidden + o)] +=
            weight * weights.position[at(cell * problem.hidden + o)];
      }
    }
  }
  return found;
}

/// The first row of an image, and its number of rows.
template <typename Problem>
std::pair<std::int64_t, std::int64_t> rows_of(const Problem& problem, const ImageShapes& shapes,
                                              std::int64_t image) {
  if (!shapes.differ()) {
    return {image * problem.tokens, problem.tokens};
  }
  const auto* const starts = pointer<const std::int32_t>(shapes.starts);
  return {starts[image], starts[image + 1] - starts[image]};
}

}  // namespace

void patch_embed(const PatchEmbedProblem& problem, const PatchEmbedWeights& weights,
                 const ConstTensorView& patches, const TensorView& tokens,
                 const ImageShapes& shapes) {
  for (std::int64_t image = 0; shapes.differ() && image < problem.images; ++image) {
    const auto* const grid = pointer<const std::int32_t>(shapes.grids) + 2 * image;
    const Vector table = positions(problem, weights, grid[0], grid[1]);
    const std::vector<float> narrow(table.begin(), table.end());
    PatchEmbedWeights resized = weights;
    resized.position = narrow;
    const auto [first, count] = rows_of(problem, shapes, image);
    PatchEmbedProblem one = problem;
    one.images = 1;
    one.tokens = count;
    one.position_side = 0;
    const auto part = [begin = first](const auto& view, std::int64_t width) {
      auto rows = view;
      rows.data = view.template as<std::byte>() +
                  static_cast<std::size_t>(begin * width) * size_of(view.dtype);
      return rows;
    };
    patch_embed(one, resized, part(patches, problem.patch_elements), part(tokens, problem.hidden),
                {});
  }
  if (shapes.differ()) {
    return;
  }
  for (std::int64_t i = 0; i < problem.images * problem.prefix * problem.hidden; ++i) {
    const std::int64_t width = problem.prefix * problem.hidden;
    const std::int64_t image = i / width * (problem.prefix + problem.tokens) * problem.hidden;
    store(tokens, image + i % width, weights.prefix[at(i % width)]);
  }
  for (std::int64_t row = 0; row < problem.patches(); ++row) {
    Vector x = read_row(patches, row, problem.patch_elements);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x[i] * weights.scale[i % 3] + weights.shift[i % 3];
    }
    const Vector y = forward(weights.projection, x);
    const std::int64_t position = row % problem.tokens * problem.hidden;
    const std::int64_t target = row + (row / problem.tokens + 1) * problem.prefix;
    for (std::int64_t o = 0; o < problem.hidden; ++o) {
      store(tokens, target * problem.hidden + o, y[at(o)] + weights.position[at(position + o)]);
    }
  }
}

void layer_norm(const LayerNormProblem& problem, const LayerNormWeights& weights,
                const ConstTensorView& input, const TensorView& output) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    store_row(output, row, forward(weights, problem.eps, read_row(input, row, problem.width)));
  }
}

void linear(const LinearProblem& problem, const LinearWeights& weights,
            const ConstTensorView& input, const TensorView& output) {
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    Vector x = read_row(input, row, problem.in);
    if (problem.norm) {
      x = forward(weights.norm, problem.eps, x);
    }
    Vector y = forward(weights, x);
    for (std::int64_t o = 0; o < problem.out; ++o) {
      if (problem.epilogue == Epilogue::kGeluTanh) {
        y[at(o)] = gelu_tanh(y[at(o)]);
      } else if (problem.epilogue == Epilogue::kGeluErf) {
        y[at(o)] = gelu_erf(y[at(o)]);
      } else if (problem.epilogue == Epilogue::kResidual) {
        y[at(o)] += load(output, row * problem.out + o);
      }
    }
    store_row(output, row, y);
  }
}

void attention(const AttentionProblem& problem, const AttentionOperands& operands) {
  if (problem.varlen) {
    const auto* const starts_q = pointer<const std::int32_t>(operands.cu_seqlens_q);
    const auto* const starts_k = pointer<const std::int32_t>(operands.cu_seqlens_k);
    for (std::int64_t sequence = 0; sequence < problem.batch; ++sequence) {
      AttentionProblem one = problem;
      one.varlen = false;
      one.batch = 1;
      one.queries = starts_q[sequence + 1] - starts_q[sequence];
      one.keys = starts_k[sequence + 1] - starts_k[sequence];
      const auto from = [&](Address base, std::int64_t row, const AttentionStrides& strides) {
        return base + static_cast<Address>(row * strides.row) * size_of(problem.type);
      };
      attention(one, {.q = from(operands.q, starts_q[sequence], problem.q),
                      .k = from(operands.k, starts_k[sequence], problem.k),
                      .v = from(operands.v, starts_k[sequence], problem.v),
                      .o = from(operands.o, starts_q[sequence], problem.o)});
    }
    return;
  }
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
          const TensorView& output, const ImageShapes& shapes) {
  const std::int64_t hidden = problem.hidden;
  Vector mean(at(hidden));
  for (std::int64_t image = 0; image < problem.images; ++image) {
    const auto [first, n] = rows_of(problem, shapes, image);
    Vector x = read_rows(input, first * hidden, hidden, n, hidden);
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
    Vector y = forward(weights.norm, problem.eps, x);
    if (problem.projected) {
      y = forward(weights.linear, y);
    }
    for (std::int64_t o = 0; o < problem.out; ++o) {
      store(output, sequence * problem.out + o, y[at(o)]);
    }
  }
}

}  // namespace fovea::ops::reference
