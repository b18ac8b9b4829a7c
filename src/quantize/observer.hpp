// Observer: a backend that passes all calls on and records what the linear layers read.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/backend.hpp"
#include "quantize/rounding.hpp"

namespace fovea::quantize {

/// Images [first, first + count) of all that are observed.
struct ImageRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

/// Statistics by place and then layer. A sum depends on the order in which
/// numbers are added, so images are added in the order of their numbers, whichever thread is first.
class Observations {
 public:
  /// Adds the rows of `images` to layer `layer` of `place`, after those of all images before them,
  /// for which this waits. Thread-safe. Rethrows what `give_up` was given.
  void add(ops::Place place, std::size_t layer, const ImageRange& images,
           const ConstTensorView& input);
  /// Call this when images will not be added: threads that wait for them get `reason`, or the
  /// reason of an earlier call.
  void give_up(std::exception_ptr reason);
  /// Throws fovea::Error when that layer was never seen.
  [[nodiscard]] const InputStatistics& at(ops::Place place, std::size_t layer) const;

 private:
  struct Entry {
    std::int64_t images = 0;     // added so far; under mutex_
    InputStatistics statistics;  // of the thread whose turn it is
  };

  mutable std::mutex mutex_;
  std::condition_variable turn_;
  std::exception_ptr given_up_;
  std::map<std::pair<ops::Place, std::size_t>, Entry> entries_;
};

/// `inner` must keep its tensors as f32 in host memory. `observations` must outlive the backend.
[[nodiscard]] std::unique_ptr<ops::Backend> observe(std::unique_ptr<ops::Backend> inner,
                                                    std::vector<ops::Place> places,
                                                    Observations& observations);

}  // namespace fovea::quantize
