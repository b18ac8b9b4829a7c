// The transformer layers as a sequence of operators, written once for both towers.
#include "model/forward.hpp"

#include <algorithm>
#include <cmath>

#include "ops/block_scales.hpp"

namespace fovea::model {

using ops::Epilogue;
using ops::Place;
using ops::PreparedPtr;

namespace {

/// Bytes of a tensor, rounded up to the alignment.
std::size_t padded_bytes(std::int64_t rows, std::int64_t width, DType type) {
  const std::size_t bytes = ops::matrix_bytes(type, rows, width);
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

Forward::Layout::Layout(const TowerSpec& tower, std::int64_t rows, DType stream,
                        std::span<const LayerWeights> layers) {
  std::size_t largest_normed = 0;
  std::size_t largest_inner = padded_bytes(rows, tower.hidden, DType::kF32);  // floats()
  for (const LayerWeights& layer : layers) {
    const ops::TensorTypes& types = layer.types;
    largest_normed = std::max({largest_normed, padded_bytes(rows, tower.hidden, types.normed),
                               padded_bytes(rows, tower.hidden, types.attended)});
    largest_inner = std::max({largest_inner, padded_bytes(rows, 3 * tower.hidden, types.qkv),
                              padded_bytes(rows, tower.mlp, types.inner)});
  }
  normed = padded_bytes(rows, tower.hidden, stream);
  scales = normed + largest_normed;
  inner = scales + padded_bytes(rows, 1, DType::kF32);
  bytes = inner + largest_inner;
}

std::size_t Forward::workspace_bytes(const TowerSpec& tower, DType stream,
                                     std::span<const LayerWeights> layers) {
  return Layout(tower, tower.tokens, stream, layers).bytes;
}

Forward::Forward(const TowerSpec& tower, DType stream, std::span<const LayerWeights> layers,
                 ops::Executor& executor, const ops::Slice& slice)
    : tower_(tower),
      layers_(layers),
      executor_(executor),
      slice_(slice),
      rows_(slice.rows(tower.tokens)),
      x_{.values = {slice.workspace, stream, {rows_, tower.hidden}}},
      layout_(tower, rows_, stream, layers) {}

Forward::Activations Forward::activations(const ops::TensorTypes& types) const {
  std::byte* const base = slice_.workspace;
  Activations found{.normed = {{base + layout_.normed, types.normed, {rows_, tower_.hidden}}},
                    .attended = {{base + layout_.normed, types.attended, {rows_, tower_.hidden}}},
                    .qkv = {{base + layout_.inner, types.qkv, {rows_, 3 * tower_.hidden}}},
                    .inner = {{base + layout_.inner, types.inner, {rows_, tower_.mlp}}}};
  if (types.row_scales) {
    found.normed.scales = {base + layout_.scales, DType::kF32, {rows_}};
  }
  return found;
}

TensorView Forward::floats() const {
  return {slice_.workspace + layout_.inner, DType::kF32, {rows_, tower_.hidden}};
}

void Forward::run_layers(std::size_t count) {
  std::int64_t index = 0;
  for (const LayerWeights& layer : layers_.first(count)) {
    const auto [normed, attended, qkv, inner] = activations(layer.types);
    norm_linear(Place::kQkv, index, layer.norm1, layer.qkv, normed, qkv);
    attention(qkv, attended);
    linear(Place::kOut, index, layer.out, attended, x_, Epilogue::kResidual);

    norm_linear(Place::kFc1, index, layer.norm2, layer.fc1, normed, inner, tower_.activation);
    linear(Place::kFc2, index, layer.fc2, inner, x_, Epilogue::kResidual);
    ++index;
  }
}

void Forward::layer_norm(const PreparedPtr& weights, const ScaledTensor& output) {
  executor_.run(ops::LayerNormCall{{.rows = rows_,
                                    .width = tower_.hidden,
                                    .eps = tower_.layer_norm_eps,
                                    .input = x_.values.dtype,
                                    .output = output.values.dtype,
                                    .row_scales = output.scaled()},
                                   *weights,
                                   x_.values,
                                   output.values,
                                   output.scales});
}

void Forward::linear(Place place, std::int64_t layer, const PreparedPtr& weights,
                     const ScaledTensor& input, const ScaledTensor& output, Epilogue epilogue,
                     bool norm) {
  executor_.run(ops::LinearCall{{.place = place,
                                 .layer = layer,
                                 .rows = rows_,
                                 .in = input.values.shape[1],
                                 .out = output.values.shape[1],
                                 .epilogue = epilogue,
                                 .input = input.values.dtype,
                                 .output = output.values.dtype,
                                 .row_scales = input.scaled(),
                                 .norm = norm,
                                 .eps = tower_.layer_norm_eps},
                                *weights,
                                input.values,
                                output.values,
                                input.scales});
}

void Forward::norm_linear(Place place, std::int64_t layer, const PreparedPtr& norm,
                          const PreparedPtr& weights, const ScaledTensor& normed,
                          const ScaledTensor& output, Epilogue epilogue) {
  const bool is_folded = norm == nullptr;
  if (!is_folded) {
    layer_norm(norm, normed);
  }
  linear(place, layer, weights, is_folded ? x_ : normed, output, epilogue, is_folded);
}

void Forward::attention(const ScaledTensor& qkv, const ScaledTensor& output) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(tower_.head_dim()));
  // Uses the tower's maximum length instead of the slice's: the kernel is chosen by this length,
  // and the result of an image must not depend on the other images.
  ops::AttentionProblem problem = ops::packed_attention(slice_.images, tower_.tokens, tower_.heads,
                                                        tower_.head_dim(), scale, qkv.values.dtype);
  problem.varlen = slice_.shapes.differ();
  executor_.run(ops::packed_attention_call(problem, qkv.values, output.values, slice_.shapes));
}

}  // namespace fovea::model
