// Attention as a workload: random operands, the exact result, mutants, and cuDNN for comparison.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/launch/attention.hpp"
#include "lab/cards/operator_workload.hpp"

namespace fovea::lab {

/// Memory layout of the operands: rows of q, k and v interleaved as the encoder's projections store
/// them; three tensors (batch, heads, length, head_dim); or sequences of different lengths
/// concatenated in three tensors (total rows, heads, head_dim).
enum class AttentionLayout : std::uint8_t { kPacked, kSeparate, kVarlen };

/// Distribution of the inputs. With the scale 1 / sqrt(head_dim), scores have a standard deviation
/// of about 2 by default, so that the softmax is neither flat nor one-hot, and the values have a
/// mean that a wrong sum of weights would change.
struct AttentionInputs {
  AttentionLayout layout = AttentionLayout::kPacked;
  Draw draw{0.2, 1.4};
  bool equal_keys = false;  // all keys of a tensor are equal, so that all weights are equal
  /// One length per sequence, for kVarlen.
  std::vector<std::int64_t> query_lengths{};
  std::vector<std::int64_t> key_lengths{};
};

class AttentionWorkload final : public OperatorWorkload<AttentionWorkload, ops::AttentionProblem> {
 public:
  /// Sets the strides of `problem`, and for kVarlen also its batch size and lengths. Packed
  /// operands must have as many keys as queries, and as many key heads as query heads.
  AttentionWorkload(const ops::AttentionProblem& problem, AttentionInputs config,
                    std::uint64_t seed);
  AttentionWorkload(const ops::AttentionProblem& problem, AttentionLayout layout,
                    std::uint64_t seed)
      : AttentionWorkload(problem, AttentionInputs{.layout = layout}, seed) {}

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] OutputSpec output() const override;
  [[nodiscard]] std::vector<Plan> plans(const gpu::DeviceInfo& device) const override;
  [[nodiscard]] Plan plan_of_level(const gpu::DeviceInfo& device,
                                   std::string_view level) const override;
  [[nodiscard]] gpu::KernelId kernel_of(const gpu::DeviceInfo& device,
                                        const Plan& plan) const override;
  [[nodiscard]] TunedPlan tuned(const gpu::DeviceInfo& device, gpu::KernelId kernel,
                                const ParameterValues& values) const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& plan) const override;
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] TorchTask torch_task() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] DType operand_type() const override { return problem_.type; }
  [[nodiscard]] std::vector<Peer> peers(gpu::KernelCache& kernels,
                                        std::vector<std::string>& missing) const override;

 private:
  /// Mistakes that a wrong kernel could make.
  enum class Mistake : std::uint8_t {
    kNone,
    kSkipScale,
    kSkipRescale,  // the first block's sums are not rescaled to the maximum of all keys
    kCountTail,    // the zeros that pad the keys take part in the softmax
    kCausalOff,    // each query sees one key too many
    kNoEnd,        // each sequence reads on into the next one
    kOtherHead,    // query heads read the keys of a wrong head
  };
  /// First row and length of one sequence within the operands of a head.
  struct Sequence {
    std::int64_t image = 0;
    std::int64_t query = 0;
    std::int64_t queries = 0;
    std::int64_t key = 0;
    std::int64_t keys = 0;
  };
  /// Position of q, k or v: the input that holds it, and its offset there.
  struct Operand {
    std::size_t input = 0;
    std::int64_t offset = 0;
    ops::AttentionStrides strides;
  };
  [[nodiscard]] Operand operand(int operand_index) const;
  /// Returns the launcher's operands at these addresses.
  [[nodiscard]] ops::AttentionOperands attention_operands(const Operands& operands) const;
  /// Returns whether a row of the output holds all heads, one after the other.
  [[nodiscard]] bool heads_in_row() const { return config_.layout != AttentionLayout::kSeparate; }
  /// Returns the sequence that row `row` of the output belongs to.
  [[nodiscard]] Sequence sequence_at(std::int64_t row) const;
  /// Returns rows `first` to `first + count` of q, k or v for one head, concatenated.
  [[nodiscard]] std::vector<float> operand_rows(int operand_index, std::int64_t image,
                                                std::int64_t head, std::int64_t first,
                                                std::int64_t count) const;
  /// Computes the output for query `row` of a sequence; probabilities are rounded to the operands'
  /// type when `Number` is float.
  template <typename Number>
  void attend(const Sequence& sequence, std::int64_t row, std::span<const float> query,
              std::span<const float> keys, std::span<const float> values,
              std::span<Number> output) const;
  /// Calls `write(index in the tile, value)` for each element of the tile.
  template <typename Number, typename Write>
  void compute(const Tile& tile, Write write) const;

  AttentionInputs config_;
  Mistake mistake_ = Mistake::kNone;
};

}  // namespace fovea::lab
