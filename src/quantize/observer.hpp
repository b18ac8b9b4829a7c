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

/// The images [first, first + count) of all observed images.
struct ImageRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

/// Statistics of the inputs of each layer at each place. Since floating-point sums depend on the
/// order of addition, images are added in the order of their numbers, on any threads.
class Observations {
 public:
  /// Adds the rows of `images` to the statistics of a layer; waits until those of all earlier
  /// images have been added. Thread-safe. Rethrows the exception that was passed to abort().
  void add(ops::Place place, std::size_t layer, const ImageRange& images,
           const ConstTensorView& input);
  /// Reports that some images will not be added. Threads that wait for them throw `reason`, or that
  /// of an earlier call.
  void abort(std::exception_ptr reason);
  /// Returns the statistics of a layer. Throws fovea::Error when it has not been observed.
  [[nodiscard]] const InputStatistics& at(ops::Place place, std::size_t layer) const;

 private:
  struct Entry {
    std::int64_t images = 0;     // the number of images added; guarded by mutex_
    InputStatistics statistics;  // used only by the thread that adds image `images`
  };

  mutable std::mutex mutex_;
  std::condition_variable images_added_;
  std::exception_ptr abort_reason_;
  std::map<std::pair<ops::Place, std::size_t>, Entry> entries_;
};

/// Returns a backend that forwards calls to `inner` and records the inputs of the linear layers at
/// `places`. `inner` must keep its tensors as f32 in host memory. `observations` must outlive the
/// result.
[[nodiscard]] std::unique_ptr<ops::Backend> observe(std::unique_ptr<ops::Backend> inner,
                                                    std::vector<ops::Place> places,
                                                    Observations& observations);

}  // namespace fovea::quantize
