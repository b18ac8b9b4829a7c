// Writer: a hand-over of one batch to a thread.
#include "pipeline/writer.hpp"

#include <utility>

namespace fovea::pipeline {

Writer::Writer(Output& output, Loader& loader)
    : output_(output), loader_(loader), thread_([this] { work(); }) {}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Writer::push(Batch& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return waiting_ == nullptr || error_; });
  if (error_) {
    std::rethrow_exception(error_);
  }
  waiting_ = &batch;
  lock.unlock();
  changed_.notify_all();
}

void Writer::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void Writer::work() {
  for (;;) {
    Batch* batch = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return waiting_ != nullptr || closed_; });
      batch = std::exchange(waiting_, nullptr);
    }
    if (batch == nullptr) {
      return;
    }
    changed_.notify_all();
    try {
      output_.append(*batch, batch->stored);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    loader_.recycle(*batch);
    if (error_) {
      changed_.notify_all();
      return;
    }
  }
}

}  // namespace fovea::pipeline
