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

/// Decodes an input into the pixels of its slot, within `limits`. Sets the slot's width and height,
/// and `bytes` when the pixels do not take all of its memory. Throws on failure: Interrupted and
/// ResourceError end the job; after any other error the input counts as failed. Each worker has its
/// own function object, which may keep buffers.
using Prepare = std::function<void(Item& item, std::span<std::uint8_t> pixels, Slot& slot,
                                   const Limits& limits)>;

struct LoaderOptions {
  int threads = 1;
  std::size_t batch_size = 32;
  std::size_t image_bytes = 0;  // the size of a slot: that of the largest image
  std::size_t row_bytes = 0;    // the size of the result of Encode per image; 0 without an encoder
  /// Allocates the pixels of a batch.
  std::function<HostBuffer(std::size_t bytes)> allocate = [](std::size_t bytes) {
    return HostBuffer(bytes);
  };
  std::size_t batches = 4;  // one each to decode, wait, compute and be written
  /// The number of bytes that all images together may take while they are read and decoded; 0
  /// means default_decode_memory().
  std::uint64_t decode_memory = 0;
  std::int64_t max_pixels = 0;  // per image; 0 means the limit of Pillow
};

/// Decodes inputs into batches. Memory is bounded by LoaderOptions::batches and decode_memory for
/// any inputs: a worker without a free batch waits for recycle(), and one without memory for its
/// image waits until other workers release theirs.
class Loader {
 public:
  /// `inputs` must outlive the loader.
  Loader(const LoaderOptions& options, InputStream& inputs);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts the workers, or as many as the system permits (see threads()). From then on, only they
  /// may use `inputs`. Throws ResourceError when no worker can be started. Must be called once,
  /// before all other functions.
  void start(const std::function<Prepare()>& make_prepare);

  /// Returns the next decoded batch; null at the end and after stop(). Rethrows an error of the
  /// inputs or of a worker, after the complete batches before it.
  Batch* next();

  /// Returns the number of workers; fewer than requested when the system refuses more threads.
  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()); }

  /// Returns a batch to the loader, to be filled again. May be called from another thread than
  /// next().
  void recycle(Batch& batch);

  /// Makes next() return null, and stops the workers even in the middle of an image.
  void stop();

  /// Returns the total time that the workers have spent on inputs, in seconds.
  [[nodiscard]] double busy_seconds() const;

 private:
  void run_worker(const Prepare& prepare);
  /// Adds an input to `batch` and prepares it. Returns false at the end.
  bool process_next(const Prepare& prepare, Batch*& batch);
  /// Returns false when the worker must end, because the loader was stopped or the job has failed.
  bool fill_slot(const Prepare& prepare, Item& item, Batch& batch, std::size_t index);
  /// Ends the job after the complete batches before `batch`; null when no batch was begun.
  void fail_at(Batch* batch, std::exception_ptr error);
  bool take_input(Item& item, Batch*& batch, std::size_t& slot);
  Batch* open_batch();
  void seal(Batch& batch);
  [[nodiscard]] bool has_next() const;

  LoaderOptions options_;
  InputStream& inputs_;
  DecodeMemory memory_;
  std::atomic<bool> stopping_ = false;  // equals stopped_, for code that does not hold mutex_
  Limits limits_ = memory_.limits(image::checked_max_pixels(options_.max_pixels), &stopping_);

  // Held while an input is taken, which may read an archive. It is locked before mutex_.
  std::mutex inputs_mutex_;
  Batch* open_batch_ = nullptr;
  bool inputs_ended_ = false;

  mutable std::mutex mutex_;
  std::condition_variable batch_ready_;
  std::condition_variable batch_free_;
  std::vector<Batch> batches_;
  std::vector<Batch*> free_batches_;
  std::deque<Batch*> started_batches_;  // batches in input order that next() has not returned yet
  bool no_more_batches_ = false;
  bool stopped_ = false;
  std::atomic<bool> worker_failed_ = false;
  std::exception_ptr error_;  // the error that ended the inputs or a worker
  // Created in advance, while there is enough memory.
  const std::exception_ptr out_of_memory_ = std::make_exception_ptr(ResourceError(
      "not enough memory to decode images; use fewer " + option_words("decode-threads")));
  double busy_seconds_ = 0;

  std::vector<std::thread> workers_;
};

}  // namespace fovea::pipeline
