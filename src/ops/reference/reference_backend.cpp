// ReferenceBackend: keeps copies of the host weights and calls the float64 operators.
#include "ops/reference/reference_backend.hpp"

#include <memory>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "ops/reference/operators.hpp"

namespace fovea::ops::reference {
namespace {

/// A copy of weights W, with the memory that its spans point to.
template <typename W>
class Copy : public Prepared {
 public:
  explicit Copy(const W& weights) : weights_(weights) {
    check_weights(weights);
    own(weights_);
  }

  [[nodiscard]] const W& get() const { return weights_; }

 private:
  void own(std::span<const float>& span) {
    const auto& copy =
        storage_.emplace_back(std::make_unique<std::vector<float>>(span.begin(), span.end()));
    span = *copy;
  }
  void own(LayerNormWeights& weights) {
    own(weights.weight);
    own(weights.bias);
  }
  void own(LinearWeights& weights) {
    own(weights.weight);
    own(weights.bias);
    own(weights.norm);
  }
  void own(PatchEmbedWeights& weights) {
    own(weights.projection);
    own(weights.position);
    own(weights.prefix);
  }
  void own(ProjectWeights& weights) {
    own(weights.norm);
    own(weights.linear);
  }
  void own(PoolWeights& weights) {
    own(weights.key);
    own(weights.norm);
    own(weights.input_norm);
    for (LinearWeights* const layer : {&weights.value, &weights.out, &weights.fc1, &weights.fc2}) {
      own(*layer);
    }
  }

  W weights_;
  std::vector<std::unique_ptr<std::vector<float>>> storage_;
};

template <typename W>
const W& get(const Prepared& prepared) {
  return dynamic_cast<const Copy<W>&>(prepared).get();
}

class ReferenceExecutor : public Executor {
 private:
  void do_patch_embed(const PatchEmbedProblem& problem, const Prepared& weights,
                      const ConstTensorView& patches, const TensorView& tokens,
                      const ImageShapes& shapes) override {
    reference::patch_embed(problem, get<PatchEmbedWeights>(weights), patches, tokens, shapes);
  }
  void do_layer_norm(const LayerNormProblem& problem, const Prepared& weights,
                     const ConstTensorView& input, const TensorView& output,
                     const TensorView& /*row_scales*/) override {
    reference::layer_norm(problem, get<LayerNormWeights>(weights), input, output);
  }
  void do_linear(const LinearProblem& problem, const Prepared& weights,
                 const ConstTensorView& input, const TensorView& output,
                 const ConstTensorView& /*row_scales*/) override {
    reference::linear(problem, get<LinearWeights>(weights), input, output);
  }
  void do_attention(const AttentionProblem& problem, const AttentionOperands& operands) override {
    reference::attention(problem, operands);
  }
  void do_pool(const PoolProblem& problem, const Prepared& weights, const ConstTensorView& input,
               const TensorView& output, const ImageShapes& shapes) override {
    reference::pool(problem, get<PoolWeights>(weights), input, output, shapes);
  }
  void do_project(const ProjectProblem& problem, const Prepared& weights,
                  const ConstTensorView& input, const TensorView& output) override {
    reference::project(problem, get<ProjectWeights>(weights), input, output);
  }
  void do_copy(const ConstTensorView& input, const TensorView& output) override {
    for (std::int64_t i = 0; i < input.shape.elements(); ++i) {
      store(output, i, load(input, i));
    }
  }
  void do_convert(const ConstTensorView& input, const TensorView& output) override {
    do_copy(input, output);  // which rounds to the output's type
  }
};

class ReferenceBackend : public Backend {
 public:
  [[nodiscard]] std::string description() const override { return "cpu (float64 reference)"; }
  [[nodiscard]] Precision precision() const override { return Precision::kFp32; }
  [[nodiscard]] int threads() const override { return 1; }
  [[nodiscard]] TensorTypes types() const override {
    return {DType::kF64, DType::kF64, DType::kF64, DType::kF64, DType::kF64};
  }

  [[nodiscard]] Support can_run(const PatchEmbedProblem& problem) const override {
    return valid(problem);
  }
  [[nodiscard]] Support can_run(const LinearProblem& problem) const override {
    return valid(problem);
  }
  [[nodiscard]] Support can_run(const PoolProblem& problem) const override {
    return valid(problem);
  }
  [[nodiscard]] Support can_run(const ProjectProblem& problem) const override {
    return valid(problem);
  }

  [[nodiscard]] PreparedPtr prepare(const PatchEmbedWeights& weights) override {
    return std::make_unique<Copy<PatchEmbedWeights>>(weights);
  }
  [[nodiscard]] PreparedPtr prepare(const LayerNormWeights& weights) override {
    return std::make_unique<Copy<LayerNormWeights>>(weights);
  }
  [[nodiscard]] PreparedPtr prepare(const LinearWeights& weights) override {
    return std::make_unique<Copy<LinearWeights>>(weights);
  }
  [[nodiscard]] PreparedPtr prepare(const PoolWeights& weights) override {
    return std::make_unique<Copy<PoolWeights>>(weights);
  }
  [[nodiscard]] PreparedPtr prepare(const ProjectWeights& weights) override {
    return std::make_unique<Copy<ProjectWeights>>(weights);
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    for (std::size_t index = 0; index < count; ++index) {
      task(index);
    }
  }

  void run(const Batch& batch,
           const std::function<void(Executor&, const Slice&)>& network) override {
    const auto images = static_cast<std::size_t>(batch.images);
    AlignedBuffer<std::byte> workspace(batch.workspace_bytes_per_image);
    ReferenceExecutor executor;
    const BatchRows rows(batch);
    std::int32_t starts[2];
    std::int32_t grid[2];
    for (std::size_t index = 0; index < images; ++index) {
      const auto image = static_cast<std::int64_t>(index);
      Slice slice{.first = image,
                  .images = 1,
                  .input = rows.input(image, 1).data(),
                  .output = batch.output.data() + index * (batch.output.size() / images),
                  .workspace = workspace.data()};
      if (!batch.grids.empty()) {
        rows.shapes(image, 1, starts, grid);
        slice.shapes = {.rows = starts[1],
                        .starts = address_of(static_cast<const void*>(starts)),
                        .grids = address_of(static_cast<const void*>(grid))};
      }
      network(executor, slice);
    }
  }

  [[nodiscard]] std::int64_t preferred_batch() const override { return 32; }
  [[nodiscard]] std::string take_note() override { return {}; }
  [[nodiscard]] HostBuffer allocate_input(std::size_t bytes) override { return HostBuffer(bytes); }
  [[nodiscard]] std::shared_ptr<OutputMemory> allocate_output(std::size_t bytes) override {
    return host_output(bytes);
  }
  [[nodiscard]] Profile profile() const override { return {}; }
  void reset_profile() override {}
  [[nodiscard]] double device_seconds() const override { return 0; }
};

}  // namespace

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace fovea::ops::reference
