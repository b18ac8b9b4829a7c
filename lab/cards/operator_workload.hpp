// OperatorWorkload: what the workloads of launcher problems have in common.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lab/cards/workload.hpp"

namespace fovea::lab {

/// Returns whether the launcher runs the problem, by its can_run(), which the workload's header
/// includes.
template <typename Problem>
[[nodiscard]] Support launcher_runs(const Problem& problem, const gpu::DeviceInfo& device) {
  return can_run(problem, device);
}

/// `Own` is the workload's class.
template <typename Own, typename Problem>
class OperatorWorkload : public Workload {
 public:
  [[nodiscard]] std::string describe() const override { return to_string(problem_); }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::span<const Tensor> inputs() const override { return inputs_; }
  [[nodiscard]] Support can_run(const gpu::DeviceInfo& device) const override {
    return launcher_runs(problem_, device);
  }

 protected:
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): a class may stand between
  explicit OperatorWorkload(Problem problem, std::vector<Tensor> inputs = {})
      : problem_(std::move(problem)), inputs_(std::move(inputs)) {}

  /// Returns a copy to which `change` was applied.
  template <typename Change>
  [[nodiscard]] std::shared_ptr<const Workload> changed(const Change& change) const {
    const auto copy = std::make_shared<Own>(static_cast<const Own&>(*this));
    change(*copy);
    return copy;
  }
  /// Returns a mutant for a mistake that no operand can cause: a copy whose `member` has this
  /// value.
  template <typename Value>
  [[nodiscard]] Mutant mutant_with(std::string name, Value Own::* member,
                                   std::type_identity_t<Value> value) const {
    return {std::move(name), changed([=](Own& copy) { copy.*member = value; }), false};
  }
  /// Returns a copy with input number `which` replaced.
  [[nodiscard]] std::shared_ptr<const Workload> with_input(std::size_t which,
                                                           const Tensor& tensor) const {
    return changed([&](Own& copy) { copy.inputs_[which] = tensor; });
  }

  Problem problem_;
  std::vector<Tensor> inputs_;
};

}  // namespace fovea::lab
