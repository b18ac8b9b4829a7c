// OperatorWorkload: common base class of workloads whose problems are those of a launcher.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lab/cards/workload.hpp"

namespace fovea::lab {

/// Returns whether the launcher can run the problem. Calls the launcher's can_run(), which the
/// workload's file includes.
template <typename Problem>
[[nodiscard]] Support launcher_runs(const Problem& problem, const gpu::DeviceInfo& device) {
  return can_run(problem, device);
}

/// Base class of the workload class `Derived`, whose problem has the type `Problem`.
template <typename Derived, typename Problem>
class OperatorWorkload : public Workload {
 public:
  [[nodiscard]] std::string describe() const override { return to_string(problem_); }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::span<const Tensor> inputs() const override { return inputs_; }
  [[nodiscard]] Support can_run(const gpu::DeviceInfo& device) const override {
    return launcher_runs(problem_, device);
  }

 protected:
  // NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): Derived may derive indirectly
  explicit OperatorWorkload(Problem problem, std::vector<Tensor> inputs = {})
      : problem_(std::move(problem)), inputs_(std::move(inputs)) {}

  /// Returns a copy to which `change` was applied.
  template <typename Change>
  [[nodiscard]] std::shared_ptr<const Workload> changed(const Change& change) const {
    const auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    change(*copy);
    return copy;
  }
  /// Returns a mutant for a mistake that no operand can cause: a copy whose `member` has this
  /// value.
  template <typename Value>
  [[nodiscard]] Mutant mutant_with(std::string name, Value Derived::* member,
                                   std::type_identity_t<Value> value) const {
    return {std::move(name), changed([=](Derived& copy) { copy.*member = value; }), false};
  }
  /// Returns a copy in which the input with index `index` is replaced.
  [[nodiscard]] std::shared_ptr<const Workload> with_input(std::size_t index,
                                                           const Tensor& tensor) const {
    return changed([&](Derived& copy) { copy.inputs_[index] = tensor; });
  }

  Problem problem_;
  std::vector<Tensor> inputs_;
};

}  // namespace fovea::lab
