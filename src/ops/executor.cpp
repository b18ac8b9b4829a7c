// Checks of every operator's operands, before a backend sees them, and the rows of batches.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "ops/backend.hpp"

namespace fovea::ops {
namespace {

template <typename Problem>
void check_problem(const Problem& problem) {
  if (const Support support = valid(problem); !support) {
    fail("{}: {}", to_string(problem), support.why);
  }
}

bool fits(const ConstTensorView& view, DType dtype, std::initializer_list<std::int64_t> shape) {
  const auto dims = view.shape.dims();
  return view.data != nullptr && view.dtype == dtype &&
         std::equal(dims.begin(), dims.end(), shape.begin(), shape.end());
}

// The message is made only when it is needed: this runs for every operator of every slice.
template <typename Problem>
void check(const Problem& problem, std::string_view what, const ConstTensorView& view, DType dtype,
           std::initializer_list<std::int64_t> shape) {
  if (!fits(view, dtype, shape)) {
    check_operand(to_string(problem), what, view, dtype, shape);
  }
}

template <typename Problem>
void check_shapes(const Problem& problem, bool varlen, const ImageShapes& shapes) {
  if (varlen != shapes.differ()) {
    fail("{}: {}", to_string(problem),
         varlen ? "where its images begin is not said" : "its images are all alike");
  }
}

}  // namespace

void Executor::patch_embed(const PatchEmbedProblem& problem, const Prepared& weights,
                           const ConstTensorView& patches, const TensorView& tokens,
                           const ImageShapes& shapes) {
  check_problem(problem);
  check_shapes(problem, problem.varlen(), shapes);
  check(problem, "patches", patches, DType::kU8, {problem.patches(), problem.patch_elements});
  check(problem, "tokens", tokens, problem.output, {problem.rows(), problem.hidden});
  do_patch_embed(problem, weights, patches, tokens, shapes);
}

void Executor::layer_norm(const LayerNormProblem& problem, const Prepared& weights,
                          const ConstTensorView& input, const TensorView& output,
                          const TensorView& row_scales) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows, problem.width});
  check(problem, "output", output, problem.output, {problem.rows, problem.width});
  if (problem.row_scales) {
    check(problem, "the rows' scales", row_scales, DType::kF32, {problem.rows});
  }
  do_layer_norm(problem, weights, input, output, row_scales);
}

void Executor::linear(const LinearProblem& problem, const Prepared& weights,
                      const ConstTensorView& input, const TensorView& output,
                      const ConstTensorView& row_scales) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows, problem.in});
  check(problem, "output", output, problem.output, {problem.rows, problem.out});
  if (problem.row_scales) {
    check(problem, "the rows' scales", row_scales, DType::kF32, {problem.rows});
  }
  do_linear(problem, weights, input, output, row_scales);
}

void Executor::attention(const AttentionProblem& problem, const ConstTensorView& qkv,
                         const TensorView& output, const ImageShapes& shapes) {
  const std::int64_t rows = problem.varlen ? shapes.rows : problem.batch * problem.queries;
  check(problem, "qkv", qkv, problem.type, {rows, 3 * problem.hidden()});
  check(problem, "output", output, problem.type, {rows, problem.hidden()});
  check_shapes(problem, problem.varlen, shapes);
  AttentionProblem packed = packed_attention(problem.batch, problem.queries, problem.heads,
                                             problem.head_dim, problem.scale, problem.type);
  packed.varlen = problem.varlen;
  if (problem != packed) {
    fail("{}: the projections are not packed", to_string(problem));
  }
  AttentionOperands operands =
      packed_operands(problem, address_of(qkv.data), address_of(output.data));
  operands.cu_seqlens_q = operands.cu_seqlens_k = shapes.starts;
  attention(problem, operands);
}

void Executor::attention(const AttentionProblem& problem, const AttentionOperands& operands) {
  check_problem(problem);
  do_attention(problem, operands);
}

void Executor::pool(const PoolProblem& problem, const Prepared& weights,
                    const ConstTensorView& input, const TensorView& output,
                    const ImageShapes& shapes) {
  check_problem(problem);
  check_shapes(problem, problem.varlen, shapes);
  check(problem, "input", input, problem.input, {problem.rows(), problem.hidden});
  check(problem, "output", output, DType::kF32, {problem.images, problem.hidden});
  do_pool(problem, weights, input, output, shapes);
}

BatchRows::BatchRows(const Batch& batch) : batch_(batch), tokens_(batch.tokens) {
  if (batch.grids.empty()) {
    return;
  }
  if (std::cmp_not_equal(batch.grids.size(), batch.images)) {
    fail("{} images have {} sizes", batch.images, batch.grids.size());
  }
  starts_.reserve(batch.grids.size() + 1);
  starts_.push_back(0);
  for (const PatchGrid& grid : batch.grids) {
    if (grid.height < 1 || grid.width < 1 || grid.patches() > tokens_) {
      fail("an image has {} x {} patches; expected 1 to {} of them", grid.height, grid.width,
           tokens_);
    }
    starts_.push_back(starts_.back() + grid.patches());
  }
}

std::span<const std::uint8_t> BatchRows::input(std::int64_t first, std::int64_t images) const {
  const std::size_t unit = batch_.input.size() / units(batch_.images);
  return batch_.input.subspan(units(first) * unit, (units(first + images) - units(first)) * unit);
}

std::size_t BatchRows::most_input_bytes() const {
  return batch_.input.size() / units(batch_.images) *
         (starts_.empty() ? 1 : static_cast<std::size_t>(tokens_));
}

void BatchRows::shapes(std::int64_t first, std::int64_t images, std::int32_t* starts,
                       std::int32_t* grids) const {
  for (std::int64_t image = 0; image <= images; ++image) {
    starts[image] = static_cast<std::int32_t>(before(first + image) - before(first));
  }
  for (std::int64_t image = 0; image < images; ++image) {
    const PatchGrid& grid = batch_.grids[static_cast<std::size_t>(first + image)];
    grids[2 * image] = grid.height;
    grids[2 * image + 1] = grid.width;
  }
}

void Executor::project(const ProjectProblem& problem, const Prepared& weights,
                       const ConstTensorView& input, const TensorView& output) {
  check_problem(problem);
  check(problem, "input", input, problem.input, {problem.rows(), problem.hidden});
  check(problem, "output", output, DType::kF32, {problem.sequences, problem.out});
  do_project(problem, weights, input, output);
}

void Executor::copy(const ConstTensorView& input, const TensorView& output) {
  if (input.data == nullptr) {
    fail("copy: no memory for input");
  }
  check_operand("copy", "output", output, input.dtype, {input.shape[0], input.shape[1]});
  do_copy(input, output);
}

void Executor::convert(const ConstTensorView& input, const TensorView& output) {
  if (input.data == nullptr) {
    fail("convert: no memory for input");
  }
  if (output.dtype != DType::kF16 && output.dtype != DType::kF32) {
    fail("convert: unsupported output type {}; expected f16 or f32", to_string(output.dtype));
  }
  check_operand("convert", "output", output, output.dtype, {input.shape[0], input.shape[1]});
  do_convert(input, output);
}

namespace {

class HostOutput final : public OutputMemory {
 public:
  explicit HostOutput(std::size_t bytes) : buffer_(bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() const override {
    return std::as_writable_bytes(std::span(buffer_.data(), buffer_.size()));
  }
  [[nodiscard]] int device() const override { return kHost; }
  void copy_to(std::span<std::byte> host) const override {
    if (host.size() > buffer_.size()) {
      fail("{} bytes of results cannot be copied from {}", host.size(), buffer_.size());
    }
    std::memcpy(host.data(), buffer_.data(), host.size());
  }

 private:
  mutable HostBuffer buffer_;  // its bytes are not the object's state
};

}  // namespace

std::shared_ptr<OutputMemory> host_output(std::size_t bytes) {
  return std::make_shared<HostOutput>(bytes);
}

}  // namespace fovea::ops
