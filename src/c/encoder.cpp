// fovea_encoder and fovea_embedding over the public Encoder.
#include "fovea/c/encoder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/encoder.hpp"

struct fovea_encoder {
  std::shared_ptr<fovea::Encoder> encoder;  // shared with runs that outlive their handle
  std::string device;
  std::string precision;
};

namespace fovea::c {
namespace {

ImageInput image_input(const fovea_image& image, std::size_t index) {
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

}  // namespace
}  // namespace fovea::c

struct fovea_embedding {
  fovea_embedding(std::shared_ptr<fovea::Encoder> encoder, std::vector<fovea::ImageInput> images,
                  std::span<float> rows, const fovea_embed_options& options)
      : encoder_(std::move(encoder)), images_(std::move(images)), rows_(rows) {
    options_.batch_size = options.batch_size;
    options_.decode_threads = options.decode_threads;
    options_.normalize = options.normalize != 0;
    options_.stop_at_failure = options.stop_at_failure != 0;
    options_.stop = &stop_;
    options_.on_progress = [this](std::size_t done) { done_ = done; };
    options_.on_note = [this](std::string_view note) {
      notes_ += notes_.empty() ? "" : "\n";
      notes_ += note;
    };
    thread_ = std::thread([this] { run(); });
  }
  ~fovea_embedding() {
    stop_ = true;
    thread_.join();
  }
  fovea_embedding(const fovea_embedding&) = delete;
  fovea_embedding& operator=(const fovea_embedding&) = delete;

  [[nodiscard]] bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, time, [this] { return ended_; })) {
      return false;
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
    return true;
  }
  void stop() { stop_ = true; }
  [[nodiscard]] std::size_t done() const { return done_; }
  // Of a run that has ended.
  [[nodiscard]] const std::vector<fovea::ImageFailure>& failures() const { return failures_; }
  [[nodiscard]] const std::string& notes() const { return notes_; }

 private:
  void run() noexcept {
    std::exception_ptr error;
    try {
      failures_ = encoder_->embed_images(images_, rows_, options_);
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

  std::shared_ptr<fovea::Encoder> encoder_;
  std::vector<fovea::ImageInput> images_;
  std::span<float> rows_;
  fovea::EmbedImagesOptions options_;
  std::atomic<bool> stop_ = false;
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

fovea_status fovea_encoder_load(const char* model, const char* device, const char* precision,
                                int32_t threads, fovea_encoder** encoder) {
  return guarded([&] {
    const fovea::EncoderOptions options{
        .device = device, .precision = fovea::parse_precision(precision), .threads = threads};
    auto loaded = std::make_unique<fovea_encoder>();
    loaded->encoder = std::make_shared<fovea::Encoder>(model, options);
    loaded->device = loaded->encoder->device();
    loaded->precision = to_string(loaded->encoder->precision());
    *encoder = loaded.release();
  });
}

void fovea_encoder_free(fovea_encoder* encoder) {
  delete encoder;
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
    std::vector<fovea::ImageInput> inputs;
    inputs.reserve(count);
    for (std::size_t index = 0; index < count; ++index) {
      inputs.push_back(fovea::c::image_input(images[index], index));
    }
    const std::size_t floats = count * static_cast<std::size_t>(encoder->encoder->dimension());
    *run = std::make_unique<fovea_embedding>(encoder->encoder, std::move(inputs),
                                             std::span(rows, floats), *options)
               .release();
  });
}

fovea_status fovea_embed_wait(fovea_embedding* run, int32_t milliseconds, int32_t* ended) {
  return guarded([&] { *ended = run->wait(std::chrono::milliseconds(milliseconds)) ? 1 : 0; });
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
  delete run;
}
