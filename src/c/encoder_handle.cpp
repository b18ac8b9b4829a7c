// fovea_encoder and fovea_embedding over the public Encoder.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "c/lifetime.hpp"
#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/c/encoder.h"
#include "fovea/encoder.hpp"

struct fovea_encoder {
  std::shared_ptr<fovea::Encoder> encoder;  // shared with runs that outlive their handle
  std::string device;
  std::string precision;
  fovea::c::Process process;
};

namespace fovea::c {
namespace {

ImageInput image_input(const fovea_image& image, std::size_t index) {
  if (image.data == nullptr && image.size > 0) {
    fail("the data of image {} is NULL", index);
  }
  const std::span data(static_cast<const std::byte*>(image.data), image.size);
  switch (image.kind) {
    case FOVEA_IMAGE_FILE:
      return {.kind = ImageInput::Kind::kFile,
              .path = {reinterpret_cast<const char*>(data.data()), data.size()}};
    case FOVEA_IMAGE_ENCODED:
      return {.kind = ImageInput::Kind::kEncoded, .data = data};
    case FOVEA_IMAGE_PIXELS:
      return {.kind = ImageInput::Kind::kPixels,
              .data = data,
              .width = image.width,
              .height = image.height};
    default:
      fail("image {} is of kind {}, which there is not", index, image.kind);
  }
}

void require_this_process(const Process& process, std::string_view what) {
  if (!process.is_this_one()) {
    fail(
        "{} belongs to the parent of this process, and its threads stayed there: load the model "
        "in the process that uses it",
        what);
  }
}

}  // namespace
}  // namespace fovea::c

struct fovea_embedding {
  fovea_embedding(std::shared_ptr<fovea::Encoder> encoder, std::vector<fovea::ImageInput> images,
                  std::span<float> rows, const fovea_embed_options& options)
      : activity_(std::make_unique<fovea::c::Activity>(&stop_)),
        encoder_(std::move(encoder)),
        images_(std::move(images)),
        rows_(rows) {
    options_.batch_size = options.batch_size;
    options_.decode_threads = options.decode_threads;
    options_.decode_memory = options.decode_memory;
    options_.normalize = options.normalize != 0;
    options_.stop_at_failure = options.stop_at_failure != 0;
    options_.stop = &stop_;
    options_.on_progress = [this](std::size_t done) { done_ = done; };
    options_.on_note = [this](std::string_view note) {
      notes_ += notes_.empty() ? "" : "\n";
      notes_ += note;
    };
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      fovea::fail_for_resources("cannot start a thread: {}", error.what());
    }
  }
  ~fovea_embedding() { end(); }
  fovea_embedding(const fovea_embedding&) = delete;
  fovea_embedding& operator=(const fovea_embedding&) = delete;

  [[nodiscard]] bool wait(std::chrono::milliseconds time) {
    fovea::c::require_this_process(process_, "this run");
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, time, [this] { return ended_; })) {
      return false;
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
    return true;
  }
  // Until the engine uses neither images nor rows, and the thread is gone.
  void end() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  void stop() { stop_ = true; }
  [[nodiscard]] const fovea::c::Process& process() const { return process_; }
  [[nodiscard]] std::size_t done() const { return done_; }
  // Of a run that has ended.
  [[nodiscard]] const std::vector<fovea::ImageFailure>& failures() const { return failures_; }
  [[nodiscard]] const std::string& notes() const { return notes_; }

 private:
  void run() noexcept {
    // Made before what the libraries keep for a thread, it ends after that, as the thread does.
    thread_local std::unique_ptr<fovea::c::Activity> activity;
    activity = std::move(activity_);
    std::exception_ptr error;
    try {
      failures_ = encoder_->embed_images(images_, rows_, options_);
      if (done_ < images_.size() && fovea::c::is_shut_down()) {
        fovea::fail("the run was ended before its last image, because the process is ending");
      }
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      ended_ = true;
    }
    changed_.notify_all();
  }

  fovea::c::Process process_;
  std::atomic<bool> stop_ = false;
  std::unique_ptr<fovea::c::Activity> activity_;
  std::shared_ptr<fovea::Encoder> encoder_;
  std::vector<fovea::ImageInput> images_;
  std::span<float> rows_;
  fovea::EmbedImagesOptions options_;
  std::atomic<std::size_t> done_ = 0;
  std::string notes_;
  std::vector<fovea::ImageFailure> failures_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

using fovea::c::guarded;
using fovea::c::require_pointer;

fovea_status fovea_encoder_load(const char* model, const char* device, const char* precision,
                                int32_t threads, fovea_encoder** encoder) {
  return guarded([&] {
    require_pointer(model, "model");
    require_pointer(device, "device");
    require_pointer(precision, "precision");
    require_pointer(encoder, "encoder");
    const fovea::c::Activity activity;
    const fovea::EncoderOptions options{
        .device = device, .precision = fovea::parse_precision(precision), .threads = threads};
    auto loaded = std::make_unique<fovea_encoder>();
    loaded->encoder = std::make_shared<fovea::Encoder>(model, options);
    loaded->device = loaded->encoder->device();
    loaded->precision = to_string(loaded->encoder->precision());
    *encoder = loaded.release();
  });
}

// Its threads are waited for. A child of fork() has none of them, and after fovea_shut_down() the
// process takes all back; both leave it where it is.
void fovea_encoder_free(fovea_encoder* encoder) {
  if (encoder == nullptr || !encoder->process.is_this_one()) {
    return;
  }
  static_cast<void>(guarded([&] {
    const fovea::c::Activity activity;
    delete encoder;
  }));
}

int64_t fovea_encoder_dimension(const fovea_encoder* encoder) {
  return encoder->encoder->dimension();
}

int32_t fovea_encoder_height(const fovea_encoder* encoder) {
  return encoder->encoder->preprocessing().height;
}

int32_t fovea_encoder_width(const fovea_encoder* encoder) {
  return encoder->encoder->preprocessing().width;
}

int64_t fovea_encoder_batch_size(const fovea_encoder* encoder) {
  return encoder->encoder->preferred_batch();
}

const char* fovea_encoder_device(const fovea_encoder* encoder) {
  return encoder->device.c_str();
}

const char* fovea_encoder_precision(const fovea_encoder* encoder) {
  return encoder->precision.c_str();
}

fovea_status fovea_embed_start(fovea_encoder* encoder, const fovea_image* images, size_t count,
                               const fovea_embed_options* options, float* rows,
                               fovea_embedding** run) {
  return guarded([&] {
    require_pointer(encoder, "encoder");
    require_pointer(options, "options");
    require_pointer(run, "run");
    fovea::c::require_this_process(encoder->process, "this encoder");
    const auto dimension = static_cast<std::size_t>(encoder->encoder->dimension());
    if (count > std::numeric_limits<std::ptrdiff_t>::max() / (dimension * sizeof(float))) {
      fovea::fail("{} images are more than memory has room for", count);
    }
    if (count > 0) {
      require_pointer(images, "images");
      require_pointer(rows, "rows");
    }
    std::vector<fovea::ImageInput> inputs;
    inputs.reserve(count);
    for (std::size_t index = 0; index < count; ++index) {
      inputs.push_back(fovea::c::image_input(images[index], index));
    }
    *run = std::make_unique<fovea_embedding>(encoder->encoder, std::move(inputs),
                                             std::span(rows, count * dimension), *options)
               .release();
  });
}

fovea_status fovea_embed_wait(fovea_embedding* run, int32_t milliseconds, int32_t* ended) {
  return guarded([&] {
    require_pointer(run, "run");
    require_pointer(ended, "ended");
    *ended = run->wait(std::chrono::milliseconds(milliseconds)) ? 1 : 0;
  });
}

size_t fovea_embed_done(const fovea_embedding* run) {
  return run->done();
}

void fovea_embed_stop(fovea_embedding* run) {
  run->stop();
}

size_t fovea_embed_failures(const fovea_embedding* run) {
  return run->failures().size();
}

fovea_status fovea_embed_failure(const fovea_embedding* run, size_t which, size_t* index,
                                 const char** reason) {
  return guarded([&] {
    require_pointer(run, "run");
    require_pointer(index, "index");
    require_pointer(reason, "reason");
    if (which >= run->failures().size()) {
      fovea::fail("there is no failure {} of {}", which, run->failures().size());
    }
    const fovea::ImageFailure& failure = run->failures()[which];
    *index = failure.index;
    *reason = failure.error.c_str();
  });
}

const char* fovea_embed_notes(const fovea_embedding* run) {
  return run->notes().c_str();
}

void fovea_embed_free(fovea_embedding* run) {
  if (run == nullptr || !run->process().is_this_one()) {
    return;
  }
  run->end();
  static_cast<void>(guarded([&] {  // as fovea_encoder_free, for it may hold the encoder's last
    const fovea::c::Activity activity;
    delete run;
  }));
}
