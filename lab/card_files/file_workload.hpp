// FileWorkload: a problem of a card file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/card_files/card_file.hpp"
#include "lab/card_files/numpy_reference.hpp"
#include "lab/cards/workload.hpp"

namespace fovea::lab {

class FileWorkload final : public Workload {
 public:
  /// `problem` has all fields of the problem. Throws fovea::Error, which names the file and the
  /// field, if the file is wrong for it.
  FileWorkload(std::shared_ptr<const FileCard> card, emulation::Values problem, std::uint64_t seed);

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::span<const Tensor> inputs() const override { return inputs_; }
  [[nodiscard]] OutputSpec output() const override { return output_; }
  [[nodiscard]] Support can_run(const gpu::DeviceInfo& device) const override;
  [[nodiscard]] gpu::KernelId kernel_of(const gpu::DeviceInfo& device,
                                        const Plan& plan) const override;
  [[nodiscard]] std::vector<gpu::Launch> launches(gpu::Device& device, const Operands& operands,
                                                  const Plan& plan) const override;
  [[nodiscard]] std::vector<std::size_t> written_just_before() const override { return {}; }
  [[nodiscard]] std::size_t scratch_bytes() const override { return scratch_bytes_; }
  void reference(const Tile& tile, std::span<double> values) const override;
  void framework(const Tile& tile, std::span<double> values) const override;
  [[nodiscard]] std::vector<Mutant> mutants() const override;
  [[nodiscard]] TorchTask torch_task() const override;
  [[nodiscard]] double flops() const override;
  [[nodiscard]] DType operand_type() const override;
  [[nodiscard]] Poisoned poisoned() const override;

 private:
  /// Where a buffer of the file is on the device.
  struct Place {
    std::optional<std::size_t> input{};  // index of the tensor with its content
    bool is_output = false;
    std::size_t scratch = 0;  // offset in the scratch memory, of one that is neither
  };
  /// Results of the expression, computed on first use and shared by copies.
  struct Results {
    std::once_flag once;
    ReferenceResults values;
  };

  void place_buffers(std::uint64_t seed);
  [[nodiscard]] Tensor tensor_of(const emulation::Buffer& buffer, std::uint64_t seed) const;
  [[nodiscard]] gpu::DevicePtr address(const Operands& operands,
                                       const emulation::BufferAddress& place) const;
  [[nodiscard]] const ReferenceResults& results() const;
  void copy(const std::vector<double>& from, const Tile& tile, std::span<double> values) const;

  std::shared_ptr<const FileCard> card_;
  emulation::Values problem_;
  emulation::LaunchFile file_;
  std::string expression_;
  std::vector<Place> places_;  // of the file's buffers
  std::vector<Tensor> inputs_;
  OutputSpec output_;
  std::size_t scratch_bytes_ = 0;
  std::shared_ptr<Results> results_ = std::make_shared<Results>();
};

/// Returns the problem's fields as text: "m=64, n=32".
[[nodiscard]] std::string text_of(const emulation::Values& problem);

}  // namespace fovea::lab
