// Writer: a thread that appends batches to an output while the next ones are computed.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "pipeline/loader.hpp"
#include "pipeline/output.hpp"

namespace fovea::pipeline {

class Writer {
 public:
  /// Returns batches to `loader` after they are written.
  Writer(Output& output, Loader& loader);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Passes on the next batch; waits until the thread has taken the previous one. Rethrows the
  /// error that stopped the writer, after which nothing more is written.
  void push(Batch& batch);

  /// Waits until everything is written. Rethrows the error that stopped the writer. Must be the
  /// last call.
  void close();

 private:
  void work();
  void end();

  Output& output_;
  Loader& loader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Batch* next_batch_ = nullptr;
  bool closed_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace fovea::pipeline
