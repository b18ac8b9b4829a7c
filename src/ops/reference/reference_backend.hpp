// ReferenceBackend: runs the whole network in float64, slowly, as the reference for other backends.
#pragma once

#include <list>
#include <memory>
#include <span>
#include <vector>

#include "ops/backend.hpp"

namespace fovea::ops::reference {

/// Activations and the residual stream are float64; uses one thread and one image per slice.
[[nodiscard]] std::unique_ptr<Backend> make_backend();

class ReferenceExecutor final : public Executor {
 private:
  void do_run(const Call& call) override;
};

/// Owns the memory that spans of weights point to.
class Storage {
 public:
  void keep(std::span<const float>& span);

 private:
  std::list<std::vector<float>> copies_;
};

/// A copy of weights W, with the memory that its spans point to.
template <typename W>
class Kept final : public Prepared {
 public:
  explicit Kept(const W& weights) : weights_(weights) { keep(weights_, storage_); }

  [[nodiscard]] const W& get() const { return weights_; }

 private:
  W weights_;
  Storage storage_;
};

template <typename W>
[[nodiscard]] const W& kept(const Prepared& prepared) {
  return dynamic_cast<const Kept<W>&>(prepared).get();
}

/// Runs a single call, without checking it, on weights from `Kept`.
template <typename C>
void compute(const C& call) {
  ReferenceExecutor executor;
  run(call, executor);
}

}  // namespace fovea::ops::reference
