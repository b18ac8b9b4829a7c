// TorchTask: what a workload computes, in plain torch, as a task for kernels of others.
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

/// The body of a Model's forward(), and the tensors that it names: inputs `x`, weights `self.w`.
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
  std::string why_not{};  // it cannot be said in plain torch; empty: it can

  /// A tensor of a workload, with its own shape and type unless others are given; one row is a
  /// vector. Spaces in its name become underscores.
  void input(const Tensor& tensor, std::vector<std::int64_t> shape = {});
  void weight(const Tensor& tensor, DType type, std::vector<std::int64_t> shape = {});
};

/// "bfloat16": torch's name of the type. Throws fovea::Error for kMXFP8, which torch has not.
[[nodiscard]] std::string_view torch_name(DType type);

/// The case as a task in KernelBench's form: a Python file with Model, get_inputs and
/// get_init_inputs. Throws fovea::Error that says why there is none.
[[nodiscard]] std::string to_kernelbench(const Card& card, const Case& card_case);

}  // namespace fovea::lab
