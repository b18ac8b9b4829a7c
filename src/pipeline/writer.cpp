// Writer: passes batches to its thread, one at a time.
#include "pipeline/writer.hpp"

#include <chrono>
#include <utility>

#include "core/thread.hpp"

namespace fovea::pipeline {

Writer::Writer(Output& output, Loader& loader)
    : output_(output),
      loader_(loader),
      thread_(start_thread("writes the output", [this] { work(); })) {}

Writer::~Writer() {
  end();
}

void Writer::push(Batch& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return next_batch_ == nullptr || error_; });
  if (error_) {
    std::rethrow_exception(error_);
  }
  next_batch_ = &batch;
  lock.unlock();
  changed_.notify_all();
}

void Writer::close() {
  end();
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void Writer::end() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Writer::work() {
  constexpr std::chrono::milliseconds kIdleInterval{100};
  try {
    for (;;) {
      Batch* batch = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kIdleInterval,
                          [this] { return next_batch_ != nullptr || closed_; });
        batch = std::exchange(next_batch_, nullptr);
        if (batch == nullptr && closed_) {
          return;
        }
      }
      if (batch == nullptr) {
        output_.idle();
        continue;
      }
      changed_.notify_all();
      output_.append(*batch, batch->stored);
      loader_.recycle(*batch);
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
    loader_.stop();  // wakes threads that wait for a batch that will not be recycled
  }
}

}  // namespace fovea::pipeline
