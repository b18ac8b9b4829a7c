// StopFlag: lets a caller stop long-running work.
#pragma once

#include <atomic>

#include "core/error.hpp"

namespace fovea {

/// Refers to a flag that another thread or a signal handler sets, or to none (default). The flag
/// must outlive the work.
class StopFlag {
 public:
  StopFlag() = default;
  // Implicit, so that a flag can be passed as it is.
  StopFlag(const std::atomic<bool>* flag) : flag_(flag) {}

  [[nodiscard]] bool is_set() const {
    return flag_ != nullptr && flag_->load(std::memory_order_relaxed);
  }

  /// Throws Interrupted when the flag is set. Work should call this at least every few
  /// milliseconds.
  void poll() const {
    if (is_set()) {
      throw Interrupted();
    }
  }

 private:
  const std::atomic<bool>* flag_ = nullptr;
};

}  // namespace fovea
