// TorchTask: a workload's computation in plain PyTorch, as a task for other authors' kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "lab/cards/tensor.hpp"

namespace fovea::lab {

struct Card;
struct Case;

/// The body of a Model's forward(), and the tensors that it uses: inputs `x`, weights `self.w`.
struct TorchTask {
  struct Drawn {
    std::string name;
    DType type = DType::kF32;
    std::vector<std::int64_t> shape{};
    Draw draw{};
    bool weight = false;
  };
  std::vector<Drawn> tensors{};
  std::string forward{};  // lines without indentation
  std::string why_not{};  // why plain torch cannot express it; empty if it can

  /// Adds a tensor of a workload, with its own shape and type unless others are given; a single row
  /// becomes a vector. Spaces in its name become underscores.
  void input(const Tensor& tensor, std::vector<std::int64_t> shape = {});
  void weight(const Tensor& tensor, DType type, std::vector<std::int64_t> shape = {});
};

/// Returns torch's name for the type: "bfloat16". Throws fovea::Error for kMXFP8, which torch does
/// not have.
[[nodiscard]] std::string_view torch_name(DType type);

/// Returns the case as a KernelBench task: a Python file with Model, get_inputs and
/// get_init_inputs. Throws fovea::Error that says why the case cannot be expressed.
[[nodiscard]] std::string to_kernelbench(const Card& card, const Case& card_case);

}  // namespace fovea::lab
