// ReferenceBackend: keeps copies of the weights in host memory and calls the float64 operators.
#include "ops/reference/reference_backend.hpp"

#include <memory>
#include <type_traits>
#include <variant>

#include "core/buffer.hpp"

namespace fovea::ops::reference {
namespace {

class ReferenceBackend : public Backend {
 public:
  [[nodiscard]] std::string description() const override { return "cpu (float64 reference)"; }
  [[nodiscard]] Precision precision() const override { return Precision::kFp32; }
  [[nodiscard]] int threads() const override { return 1; }
  [[nodiscard]] TensorTypes types() const override {
    return {DType::kF64, DType::kF64, DType::kF64, DType::kF64, DType::kF64};
  }

  [[nodiscard]] Support can_run(const BackendProblem& problem) const override {
    return std::visit([](const auto& alternative) { return valid(alternative); }, problem);
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

 private:
  [[nodiscard]] PreparedPtr do_prepare(const Weights& weights) override {
    return std::visit(
        [](const auto& layer) -> PreparedPtr {
          return std::make_unique<Kept<std::decay_t<decltype(layer)>>>(layer);
        },
        weights);
  }
};

}  // namespace

void ReferenceExecutor::do_run(const Call& call) {
  std::visit([this](const auto& given) { ops::run(given, *this); }, call);
}

void Storage::keep(std::span<const float>& span) {
  span = copies_.emplace_back(span.begin(), span.end());
}

std::unique_ptr<Backend> make_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace fovea::ops::reference
