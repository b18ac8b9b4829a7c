// Loader: worker threads that turn inputs into batches of pixels, in input order.
#pragma once

#include <atomic>
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

#include "core/error.hpp"
#include "core/wording.hpp"
#include "pipeline/batch.hpp"
#include "pipeline/decode_memory.hpp"
#include "pipeline/input_stream.hpp"

namespace fovea::pipeline {

/// Turns an input into the pixels of its slot and sets the slot's width and height, and `bytes`
/// when the pixels do not take all of its memory, within `limits`. Throws on failure: Interrupted
/// and ResourceError end the job, any other error makes the input a failed one. Each worker has its
/// own, so it may keep buffers.
using Prepare = std::function<void(Item& item, std::span<std::uint8_t> pixels, Slot& slot,
                                   const Limits& limits)>;

struct LoaderOptions {
  int threads = 1;
  std::size_t batch_size = 32;
  std::size_t image_bytes = 0;  // per slot: of the largest image
  std::size_t row_bytes = 0;    // of what Encode gives of an image; 0 when there is nothing
  /// Allocates the pixels of a batch.
  std::function<HostBuffer(std::size_t bytes)> allocate = [](std::size_t bytes) {
    return HostBuffer(bytes);
  };
  std::size_t batches = 4;  // one decoding, one waiting, one computing, one being written
  /// Bytes that all images together may take while they are read and decoded; 0:
  /// default_decode_memory().
  std::uint64_t decode_memory = 0;
  std::int64_t max_pixels = 0;  // of an image; 0: Pillow's limit
};

/// Memory is bounded by `batches` batches and LoaderOptions::decode_memory, whatever the inputs: a
/// worker without a free batch waits for recycle(), and one without memory for its image waits for
/// the others.
class Loader {
 public:
  /// `inputs` must outlive the loader.
  Loader(const LoaderOptions& options, InputStream& inputs);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts the workers, or as many as the system permits: see threads(). `inputs` must not be used
  /// by others from then on. Throws ResourceError when no worker can be started. To be called once,
  /// first.
  void start(const std::function<Prepare()>& make_prepare);

  /// Returns the next decoded batch; null at the end and after stop(). Rethrows an error of the
  /// inputs or of a worker, after the complete batches before it.
  Batch* next();

  /// The number of workers; fewer than requested when the system refuses more threads.
  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()); }

  /// Gives a batch back to be filled again. May be called from another thread than next().
  void recycle(Batch& batch);

  /// Makes next() return null and ends the workers, in the middle of an image if necessary.
  void stop();

  /// Returns the total time that the workers have spent on inputs, in seconds.
  [[nodiscard]] double busy_seconds() const;

 private:
  void work(const Prepare& prepare);
  /// Takes an input into `batch` and prepares it. False at the end.
  bool work_on_next(const Prepare& prepare, Batch*& batch);
  /// False when the worker has to end: the loader was stopped, or the job must end.
  bool fill_slot(const Prepare& prepare, Item& item, Batch& batch, std::size_t index);
  /// Ends the job after the whole batches before `batch`, which is null when none was begun.
  void fail_in(Batch* batch, std::exception_ptr error);
  bool take(Item& item, Batch*& batch, std::size_t& slot);
  Batch* open_batch();
  void seal(Batch& batch);
  [[nodiscard]] bool ready() const;

  LoaderOptions options_;
  InputStream& inputs_;
  DecodeMemory memory_;
  std::atomic<bool> stopping_ = false;  // the same as stopped_, for code that does not hold mutex_
  Limits limits_ = memory_.limits(image::checked_max_pixels(options_.max_pixels), &stopping_);

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
  std::atomic<bool> worker_failed_ = false;
  std::exception_ptr error_;  // the error that ended the inputs or a worker
  // Allocated while there is memory for it.
  const std::exception_ptr out_of_memory_ = std::make_exception_ptr(ResourceError(
      "not enough memory to decode images; use fewer " + option_words("decode-threads")));
  double busy_seconds_ = 0;

  std::vector<std::thread> workers_;
};

}  // namespace fovea::pipeline
