// The workers: take an input in order, decode it out of order, into its slot.
#include "pipeline/loader.hpp"

#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace fovea::pipeline {
namespace {

// Decoding yields to computing where they share cores: a compute thread that is held up keeps the
// whole team waiting, while a decode worker that waits costs nothing until the batches run out,
// and then it has the cores for itself.
void lower_priority() {
  constexpr int kNice = 19;
  // Linux gives every thread its own nice value. A refusal changes speed only.
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

}  // namespace

void Batch::compact(std::size_t image_bytes) {
  rows = 0;
  for (std::size_t slot = 0; slot < count; ++slot) {
    if (slots[slot].failed()) {
      continue;
    }
    if (rows != slot) {
      std::memcpy(pixels.data() + rows * image_bytes, pixels.data() + slot * image_bytes,
                  image_bytes);
    }
    ++rows;
  }
}

Loader::Loader(const LoaderOptions& options, InputStream& inputs,
               const std::function<Prepare()>& make_prepare)
    : options_(options), inputs_(inputs), batches_(options.batches) {
  for (Batch& batch : batches_) {
    batch.pixels = options.allocate(options.batch_size * options.image_bytes);
    batch.embeddings = AlignedBuffer<float>(options.batch_size * options.row_floats);
    batch.slots.resize(options.batch_size);
    free_.push_back(&batch);
  }
  for (int worker = 0; worker < options.threads; ++worker) {
    workers_.emplace_back([this, prepare = make_prepare()] {
      lower_priority();
      work(prepare);
    });
  }
}

Loader::~Loader() {
  stop();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  batch_free_.notify_all();
  batch_ready_.notify_all();
}

bool Loader::ready() const {
  if (stopped_) {
    return true;
  }
  if (order_.empty() || !order_.front()->sealed) {
    return all_begun_;
  }
  return order_.front()->pending == 0;
}

Batch* Loader::next() {
  std::unique_lock lock(mutex_);
  batch_ready_.wait(lock, [this] { return ready(); });
  if (stopped_) {
    return nullptr;
  }
  if (order_.empty() || !order_.front()->sealed) {
    if (error_) {
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
    return nullptr;
  }
  Batch* batch = order_.front();
  order_.pop_front();
  return batch;
}

void Loader::recycle(Batch& batch) {
  {
    const std::lock_guard lock(mutex_);
    batch.count = 0;
    batch.rows = 0;
    batch.sealed = false;
    free_.push_back(&batch);
  }
  batch_free_.notify_one();
}

double Loader::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_seconds_;
}

Batch* Loader::open_batch() {
  std::unique_lock lock(mutex_);
  batch_free_.wait(lock, [this] { return stopped_ || !free_.empty(); });
  if (stopped_) {
    return nullptr;
  }
  Batch* batch = free_.back();
  free_.pop_back();
  order_.push_back(batch);
  return batch;
}

void Loader::seal(Batch& batch) {
  batch.names = inputs_.names().value();
  const std::lock_guard lock(mutex_);
  batch.sealed = true;
}

bool Loader::take(Item& item, Batch*& batch, std::size_t& slot) {
  const std::lock_guard turn(inputs_mutex_);
  if (inputs_ended_) {
    return false;
  }
  bool found = false;
  std::exception_ptr error;
  try {
    found = inputs_.next(item);
  } catch (...) {
    error = std::current_exception();
  }
  if (found && filling_ == nullptr) {
    filling_ = open_batch();
    found = filling_ != nullptr;
  }
  if (!found) {
    inputs_ended_ = true;
    if (filling_ != nullptr && !error) {  // what is short of a batch only by an error is dropped
      seal(*filling_);
    }
    {
      const std::lock_guard lock(mutex_);
      all_begun_ = true;
      error_ = error;
    }
    batch_ready_.notify_all();
    return false;
  }
  batch = filling_;
  slot = batch->count;
  batch->slots[slot] = Slot{.name = item.name, .width = 0, .height = 0, .error = {}};
  {
    const std::lock_guard lock(mutex_);
    ++batch->count;
    ++batch->pending;
  }
  if (slot + 1 == options_.batch_size) {
    seal(*batch);
    filling_ = nullptr;
  }
  return true;
}

void Loader::work(const Prepare& prepare) {
  using Clock = std::chrono::steady_clock;
  Item item;
  Batch* batch = nullptr;
  std::size_t index = 0;
  while (take(item, batch, index)) {
    const auto start = Clock::now();
    Slot& slot = batch->slots[index];
    try {
      prepare(item,
              batch->pixels.span().subspan(index * options_.image_bytes, options_.image_bytes),
              slot);
    } catch (const std::bad_alloc&) {
      slot.error = "not enough memory to decode the image";
    } catch (const std::exception& error) {
      slot.error = *error.what() != '\0' ? error.what() : "unknown error";
    }
    item = Item{};  // an archive member's bytes are not kept while waiting for the next input
    const std::chrono::duration<double> busy = Clock::now() - start;
    bool done = false;
    {
      const std::lock_guard lock(mutex_);
      busy_seconds_ += busy.count();
      done = --batch->pending == 0 && batch->sealed;
      if (stopped_) {
        return;
      }
    }
    if (done) {
      batch_ready_.notify_all();
    }
  }
}

}  // namespace fovea::pipeline
