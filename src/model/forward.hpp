// Forward: takes the sequences of a slice through a tower's layers, operator by operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/config.hpp"
#include "model/layer_weights.hpp"
#include "ops/backend.hpp"

namespace fovea::model {

/// A tensor whose rows may have scales of their own.
struct ScaledTensor {
  TensorView values;
  TensorView scales{};  // f32 [rows]; without memory when there are none

  [[nodiscard]] bool scaled() const { return scales.data != nullptr; }
};

/// Runs one slice of images or texts through the layers. The first and the last operators of a
/// network are its tower's own: they write and read x().
class Forward {
 public:
  /// Bytes that the activations of one image or text, the largest one, take.
  [[nodiscard]] static std::size_t workspace_bytes(const TowerSpec& tower, DType stream,
                                                   std::span<const LayerWeights> layers);

  Forward(const TowerSpec& tower, DType stream, std::span<const LayerWeights> layers,
          ops::Executor& executor, const ops::Slice& slice);

  /// The residual stream [rows, hidden].
  [[nodiscard]] const ScaledTensor& x() const { return x_; }

  /// Memory for f32 [rows, hidden], which the layers use as well: of no layer that runs later.
  [[nodiscard]] TensorView floats() const;

  /// The first `count` layers, one after the other, on x().
  void run_layers(std::size_t count);

  void layer_norm(const ops::PreparedPtr& weights, const ScaledTensor& output);

 private:
  /// Where the activations of a slice lie in its workspace, in bytes from its start: first the
  /// residual stream [rows, hidden], and then what each layer uses anew, in the types of that
  /// layer.
  struct Layout {
    std::size_t normed = 0;  // [rows, hidden], and `attended`: they are never alive together
    std::size_t scales = 0;  // of the rows of normed
    std::size_t inner = 0;   // [rows, mlp], and `qkv` [rows, 3 * hidden], for the same reason
    std::size_t bytes = 0;   // for one image; n times as many hold n, since padding does not grow

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
  /// `norm`: the layer's weights include a norm of its input.
  void linear(ops::Place place, std::int64_t layer, const ops::PreparedPtr& weights,
              const ScaledTensor& input, const ScaledTensor& output, ops::Epilogue epilogue,
              bool norm = false);
  /// Runs a linear layer that reads the stream's layer norm, which goes to `normed`. Without
  /// `norm`, the layer includes it.
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
