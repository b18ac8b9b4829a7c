// Observer: a backend that forwards all calls and records the inputs of linear layers.
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

/// Images [first, first + count) of all observed images.
struct ImageRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

/// Statistics for each place and layer. Because floating-point sums depend on the order of
/// addition, images are added in the order of their numbers, whichever thread comes first.
class Observations {
 public:
  /// Adds the rows of `images` to layer `layer` of `place`; waits until those of all earlier images
  /// have been added. Thread-safe. Rethrows the exception passed to `give_up`.
  void add(ops::Place place, std::size_t layer, const ImageRange& images,
           const ConstTensorView& input);
  /// Call this when images will not be added: threads that wait for them throw `reason`, or that of
  /// an earlier call.
  void give_up(std::exception_ptr reason);
  /// Returns the statistics of a layer. Throws fovea::Error when it has not been observed.
  [[nodiscard]] const InputStatistics& at(ops::Place place, std::size_t layer) const;

 private:
  struct Entry {
    std::int64_t images = 0;     // added so far; under mutex_
    InputStatistics statistics;  // used by the thread whose turn it is
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
