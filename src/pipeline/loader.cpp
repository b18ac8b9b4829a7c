// Loader: workers take inputs in order and decode them concurrently, each into its slot.
#include "pipeline/loader.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {
namespace {

// Lowers the priority of a decode worker below the compute threads on the same cores: one delayed
// compute thread delays the whole team, while decode workers can wait as long as batches are ready.
void lower_priority() {
  constexpr int kNice = 19;
  // Linux has a nice value per thread. When this fails, the job is only slower.
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

// Returns the number of threads, at most `requested`, whose stacks fit into a quarter of the
// address space, if that is limited. The rest is left for other allocations.
int affordable_threads(int requested) {
  rlimit space{};
  pthread_attr_t attributes{};
  std::size_t stack = 0;
  if (::getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY ||
      ::pthread_getattr_default_np(&attributes) != 0) {
    return requested;
  }
  ::pthread_attr_getstacksize(&attributes, &stack);
  ::pthread_attr_destroy(&attributes);
  const rlim_t affordable = space.rlim_cur / 4 / std::max<std::size_t>(stack, 1);
  return static_cast<int>(std::clamp<rlim_t>(affordable, 1, static_cast<rlim_t>(requested)));
}

std::uint64_t decode_memory(const LoaderOptions& options) {
  return options.decode_memory > 0 ? options.decode_memory : default_decode_memory(options.threads);
}

}  // namespace

void Batch::compact(std::size_t slot_bytes) {
  rows = 0;
  bytes = 0;
  grids.clear();
  for (std::size_t index = 0; index < count; ++index) {
    const Slot& slot = slots[index];
    if (!slot.has_pixels()) {
      continue;
    }
    if (bytes != index * slot_bytes) {  // the source and the target may overlap
      std::memmove(pixels.data() + bytes, pixels.data() + index * slot_bytes, slot.bytes);
    }
    bytes += slot.bytes;
    grids.push_back(slot.grid);
    ++rows;
  }
}

std::span<const std::uint8_t> Batch::packed(std::size_t images) const {
  std::size_t packed_bytes = 0;
  for (const Slot& slot : std::span(slots).first(count)) {
    if (slot.has_pixels() && images > 0) {
      packed_bytes += slot.bytes;
      --images;
    }
  }
  return packed().first(packed_bytes);
}

Loader::Loader(const LoaderOptions& options, InputStream& inputs)
    : options_(options),
      inputs_(inputs),
      memory_(decode_memory(options)),
      batches_(options.batches) {
  for (Batch& batch : batches_) {
    batch.pixels = options.allocate(options.batch_size * options.image_bytes);
    batch.results = AlignedBuffer<std::byte>(options.batch_size * options.row_bytes);
    batch.slots.resize(options.batch_size);
    batch.grids.reserve(options.batch_size);
    free_batches_.push_back(&batch);
  }
}

Loader::~Loader() {
  stop();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void Loader::start(const std::function<Prepare()>& make_prepare) {
  const int threads = affordable_threads(options_.threads);
  workers_.reserve(static_cast<std::size_t>(threads));
  for (int worker = 0; worker < threads; ++worker) {
    try {
      workers_.emplace_back([this, prepare = make_prepare()] {
        lower_priority();
        run_worker(prepare);
      });
    } catch (const std::system_error& error) {
      if (workers_.empty()) {
        fail_for_resources("cannot start a decode thread: {}", error.what());
      }
      return;  // the workers that have started do all the work
    }
  }
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    stopping_ = true;
  }
  batch_free_.notify_all();
  batch_ready_.notify_all();
}

bool Loader::has_next() const {
  if (stopped_) {
    return true;
  }
  if (started_batches_.empty() || !started_batches_.front()->sealed) {
    return no_more_batches_ || (!started_batches_.empty() && started_batches_.front()->broken);
  }
  return started_batches_.front()->pending == 0 || started_batches_.front()->broken;
}

Batch* Loader::next() {
  std::unique_lock lock(mutex_);
  batch_ready_.wait(lock, [this] { return has_next(); });
  if (stopped_) {
    return nullptr;
  }
  if (started_batches_.empty() || !started_batches_.front()->sealed ||
      started_batches_.front()->broken) {
    if (error_) {
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
    return nullptr;
  }
  Batch* batch = started_batches_.front();
  started_batches_.pop_front();
  return batch;
}

void Loader::recycle(Batch& batch) {
  {
    const std::lock_guard lock(mutex_);
    batch.count = 0;
    batch.rows = 0;
    batch.sealed = false;
    free_batches_.push_back(&batch);
  }
  batch_free_.notify_one();
}

double Loader::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  return busy_seconds_;
}

Batch* Loader::open_batch() {
  std::unique_lock lock(mutex_);
  batch_free_.wait(lock, [this] { return stopped_ || !free_batches_.empty(); });
  if (stopped_) {
    return nullptr;
  }
  Batch* batch = free_batches_.back();
  free_batches_.pop_back();
  started_batches_.push_back(batch);
  return batch;
}

void Loader::seal(Batch& batch) {
  batch.names = inputs_.names().value();
  const std::lock_guard lock(mutex_);
  batch.sealed = true;
}

bool Loader::take_input(Item& item, Batch*& batch, std::size_t& slot) {
  const std::lock_guard turn(inputs_mutex_);
  if (inputs_ended_ || worker_failed_) {
    return false;
  }
  bool has_input = false;
  std::exception_ptr error;
  try {
    has_input = inputs_.next(item, limits_);
  } catch (const std::bad_alloc&) {
    error = std::make_exception_ptr(ResourceError("not enough memory to read the next input"));
  } catch (...) {
    error = std::current_exception();
  }
  if (has_input && open_batch_ == nullptr) {
    open_batch_ = open_batch();
    has_input = open_batch_ != nullptr;
  }
  if (!has_input) {
    inputs_ended_ = true;
    if (open_batch_ != nullptr && !error) {  // after an error, an incomplete batch is dropped
      seal(*open_batch_);
    }
    {
      const std::lock_guard lock(mutex_);
      no_more_batches_ = true;
      if (!error_) {
        error_ = std::move(error);
      }
    }
    batch_ready_.notify_all();
    return false;
  }
  batch = open_batch_;
  slot = batch->count;
  batch->slots[slot] = Slot{.name = item.name, .bytes = options_.image_bytes, .error = {}};
  {
    const std::lock_guard lock(mutex_);
    ++batch->count;
    ++batch->pending;
  }
  if (slot + 1 == options_.batch_size) {
    seal(*batch);
    open_batch_ = nullptr;
  }
  return true;
}

void Loader::fail_at(Batch* batch, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (batch != nullptr) {
      batch->broken = true;
    }
    no_more_batches_ = true;
    worker_failed_ = true;
    if (!error_) {
      error_ = std::move(error);
    }
  }
  batch_ready_.notify_all();
}

bool Loader::fill_slot(const Prepare& prepare, Item& item, Batch& batch, std::size_t index) {
  Slot& slot = batch.slots[index];
  const auto fail_with_resource_error = [&](std::string_view problem) {
    // This thread passes on its reference, so that the thread that rethrows the error destroys it.
    std::exception_ptr error = std::make_exception_ptr(ResourceError(
        fmt::format("{}: {}; this is a limit of the machine, not of the file: use fewer {}",
                    io::escape(slot.name), problem, option_words("decode-threads"))));
    fail_at(&batch, std::move(error));
  };
  try {
    prepare(item, batch.pixels.span().subspan(index * options_.image_bytes, options_.image_bytes),
            slot, limits_);
  } catch (const Interrupted&) {
    return false;
  } catch (const ResourceError& error) {
    fail_with_resource_error(error.what());
    return false;
  } catch (const std::bad_alloc&) {
    fail_with_resource_error("not enough memory to decode the image");
    return false;
  } catch (const std::exception& error) {
    slot.error = *error.what() != '\0' ? error.what() : "unknown error";
  }
  return true;
}

void Loader::run_worker(const Prepare& prepare) {
  Batch* batch = nullptr;
  try {
    while (process_next(prepare, batch)) {
    }
  } catch (...) {  // not enough memory to make an error message
    fail_at(batch, out_of_memory_);
  }
}

bool Loader::process_next(const Prepare& prepare, Batch*& batch) {
  using Clock = std::chrono::steady_clock;
  batch = nullptr;
  Item item;
  std::size_t index = 0;
  if (!take_input(item, batch, index)) {
    return false;
  }
  const auto start = Clock::now();
  if (!fill_slot(prepare, item, *batch, index)) {
    return false;
  }
  const std::chrono::duration<double> duration = Clock::now() - start;
  bool is_complete = false;
  {
    const std::lock_guard lock(mutex_);
    busy_seconds_ += duration.count();
    is_complete = --batch->pending == 0 && batch->sealed;
    if (stopped_) {
      return false;
    }
  }
  if (is_complete) {
    batch_ready_.notify_all();
  }
  return true;
}

}  // namespace fovea::pipeline
