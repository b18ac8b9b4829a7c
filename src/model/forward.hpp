// Forward: runs a tower's layers on the sequences of a slice, operator by operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/config.hpp"
#include "model/layer_weights.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// A tensor with an optional scale for each row.
struct ScaledTensor {
  TensorView values;
  TensorView scales{};  // f32 [rows]; null data when there are none

  [[nodiscard]] bool scaled() const { return scales.data != nullptr; }
};

/// Runs the layers on one slice of images or texts. The towers themselves run the operators before
/// and after the layers, which write and read x().
class Forward {
 public:
  /// Bytes of activations for one image or text of maximum size.
  [[nodiscard]] static std::size_t workspace_bytes(const TowerSpec& tower, DType stream,
                                                   std::span<const LayerWeights> layers);

  Forward(const TowerSpec& tower, DType stream, std::span<const LayerWeights> layers,
          ops::Executor& executor, const ops::Slice& slice);

  /// The residual stream [rows, hidden].
  [[nodiscard]] const ScaledTensor& x() const { return x_; }

  /// Memory for f32 [rows, hidden], which the layers overwrite: valid until the next layer runs.
  [[nodiscard]] TensorView floats() const;

  /// Runs the first `count` layers on x().
  void run_layers(std::size_t count);

  void layer_norm(const ops::PreparedPtr& weights, const ScaledTensor& output);

 private:
  /// Offsets of the activations of a slice in its workspace, in bytes: first the residual stream
  /// [rows, hidden], then memory that each layer reuses, in the layer's types.
  struct Layout {
    std::size_t normed = 0;  // [rows, hidden], shared with `attended`
    std::size_t scales = 0;  // row scales of `normed`
    std::size_t inner = 0;   // [rows, mlp], shared with `qkv` [rows, 3 * hidden]
    std::size_t bytes = 0;   // size for one image; n images need at most n times this

    Layout(const TowerSpec& tower, std::int64_t rows, DType stream,
           std::span<const LayerWeights> layers);
  };
  /// The activations of a layer.
  struct Activations {
    ScaledTensor normed;
    ScaledTensor attended;
    ScaledTensor qkv;
    ScaledTensor inner;
  };

  [[nodiscard]] Activations activations(const ops::TensorTypes& types) const;
  /// Runs a linear layer. `norm`: whether its weights include a norm of its input.
  void linear(ops::Place place, std::int64_t layer, const ops::PreparedPtr& weights,
              const ScaledTensor& input, const ScaledTensor& output, ops::Epilogue epilogue,
              bool norm = false);
  /// Runs a linear layer on the layer norm of the stream, which is written to `normed`. If `norm`
  /// is null, the linear layer includes the norm.
  void norm_linear(ops::Place place, std::int64_t layer, const ops::PreparedPtr& norm,
                   const ops::PreparedPtr& weights, const ScaledTensor& normed,
                   const ScaledTensor& output, ops::Epilogue epilogue = ops::Epilogue::kNone);
  void attention(const ScaledTensor& qkv, const ScaledTensor& output);

  TowerSpec tower_;
  std::span<const LayerWeights> layers_;
  ops::Executor& executor_;
  const ops::Slice& slice_;
  std::int64_t rows_;
  ScaledTensor x_;
  Layout layout_;
};

}  // namespace fovea::model
