// Observer: a backend that passes all calls on and records what the linear layers read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/backend.hpp"
#include "quantize/rounding.hpp"

namespace fovea::quantize {

/// Statistics by place ("qkv", "fc1", "fc2") and then layer.
class Observations {
 public:
  /// Adds rows to layer `layer` of `place`. Thread-safe.
  void add(const std::string& place, std::size_t layer, const ConstTensorView& input);
  /// Throws fovea::Error when that layer was never seen.
  [[nodiscard]] const InputStatistics& at(const std::string& place, std::size_t layer) const;

 private:
  struct Entry {
    std::mutex mutex;
    InputStatistics statistics;
  };
  Entry& entry(const std::string& place, std::size_t layer);

  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::size_t, std::unique_ptr<Entry>>> entries_;
};

/// `inner` must keep its tensors as f32 in host memory. `observations` must outlive the backend.
[[nodiscard]] std::unique_ptr<ops::Backend> observe(std::unique_ptr<ops::Backend> inner,
                                                    std::vector<std::string> places,
                                                    Observations& observations);

}  // namespace fovea::quantize
