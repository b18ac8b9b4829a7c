// Loader: worker threads that turn inputs into batches of pixels, in input order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "pipeline/batch.hpp"
#include "pipeline/input_stream.hpp"

namespace fovea::pipeline {

/// Turns an input into the pixels of its slot and sets the slot's width and height. Throws when it
/// cannot. Each worker has one of its own, so it may keep buffers.
using Prepare = std::function<void(Item& item, std::span<std::uint8_t> pixels, Slot& slot)>;

struct LoaderOptions {
  int threads = 1;
  std::size_t batch_size = 32;
  std::size_t image_bytes = 0;  // of one slot
  std::size_t row_floats = 0;   // of one embedding; 0 when none is computed
  /// Memory for the pixels of a batch.
  std::function<HostBuffer(std::size_t bytes)> allocate = [](std::size_t bytes) {
    return HostBuffer(bytes);
  };
  std::size_t batches = 4;  // one decoding, one waiting, one computing, one being written
};

/// Memory is `batches` batches, whatever the number of inputs: a worker that has no free batch
/// waits for recycle().
class Loader {
 public:
  /// Starts the workers. `inputs` must outlive the loader and is not to be touched meanwhile.
  Loader(const LoaderOptions& options, InputStream& inputs,
         const std::function<Prepare()>& make_prepare);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, decoded; null at the end, and after stop(). Rethrows what ended the inputs.
  Batch* next();

  /// Gives a batch back to be filled again. May be called from another thread than next().
  void recycle(Batch& batch);

  /// Makes next() return null and ends the workers after the image they are at.
  void stop();

  /// Seconds that the workers have spent on inputs, all together.
  [[nodiscard]] double busy_seconds() const;

 private:
  void work(const Prepare& prepare);
  bool take(Item& item, Batch*& batch, std::size_t& slot);
  Batch* open_batch();
  void seal(Batch& batch);
  [[nodiscard]] bool ready() const;

  LoaderOptions options_;
  InputStream& inputs_;

  // Held while an input is taken, which may read an archive; ranks before mutex_.
  std::mutex inputs_mutex_;
  Batch* filling_ = nullptr;
  bool inputs_ended_ = false;

  mutable std::mutex mutex_;
  std::condition_variable batch_ready_;
  std::condition_variable batch_free_;
  std::vector<Batch> batches_;
  std::vector<Batch*> free_;
  std::deque<Batch*> order_;  // begun, not yet handed out, in input order
  bool all_begun_ = false;
  bool stopped_ = false;
  std::exception_ptr error_;
  double busy_seconds_ = 0;

  std::vector<std::thread> workers_;
};

}  // namespace fovea::pipeline
