// Encoder::embed_images: runs the pipeline of jobs on images in memory, into an array in memory.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "api/encoder_impl.hpp"
#include "api/image_source.hpp"
#include "core/error.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/output.hpp"
#include "pipeline/prepare.hpp"
#include "pipeline/run.hpp"

namespace fovea {
namespace {

// Thrown to end a run at its first failure when `stop_at_failure` is set.
class StopAtFailure : public Error {
 public:
  StopAtFailure() : Error("an image failed") {}
};

// Stores each row at the index of its image.
class RowsOutput final : public pipeline::Output {
 public:
  RowsOutput(std::span<float> rows, std::size_t width, const EmbedImagesOptions& options)
      : rows_(rows), width_(width), options_(options) {
    std::ranges::fill(rows_, std::numeric_limits<float>::quiet_NaN());
  }

  void append(const pipeline::Batch& batch, std::span<const std::byte> stored) override {
    const std::size_t row_bytes = width_ * sizeof(float);
    for (const pipeline::Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (slot.failed()) {
        failures_.push_back({.index = done_, .error = slot.error});
      } else {
        std::memcpy(rows_.data() + done_ * width_, stored.data(), row_bytes);
        stored = stored.subspan(row_bytes);
      }
      ++done_;
    }
    if (options_.on_progress) {
      options_.on_progress(done_);
    }
    if (options_.stop_at_failure && !failures_.empty()) {
      throw StopAtFailure();
    }
  }
  void checkpoint() override {}
  void finish() override {}

  [[nodiscard]] std::vector<ImageFailure> take_failures() { return std::move(failures_); }

 private:
  std::span<float> rows_;
  std::size_t width_;
  const EmbedImagesOptions& options_;
  std::size_t done_ = 0;
  std::vector<ImageFailure> failures_;
};

}  // namespace

std::vector<ImageFailure> Encoder::embed_images(std::span<const ImageInput> images,
                                                std::span<float> rows,
                                                const EmbedImagesOptions& options) {
  const auto width = static_cast<std::size_t>(dimension());
  if (rows.size() != images.size() * width) {
    fail("{} embeddings of {} numbers need {} floats, not {}", images.size(), width,
         images.size() * width, rows.size());
  }
  if (options.batch_size < 0 || options.decode_threads < 0) {
    fail("invalid batch size {} or number of decode threads {}; use 0 for the defaults",
         options.batch_size, options.decode_threads);
  }
  RowsOutput output(rows, width, options);
  if (images.empty()) {
    return {};
  }
  const auto batch =
      static_cast<std::size_t>(options.batch_size > 0 ? options.batch_size : preferred_batch());
  pipeline::RunOptions run;
  run.normalize = options.normalize;
  run.control.stop = options.stop;
  run.control.on_note = options.on_note;
  run.loader = loader_for(images.size(), batch, options.decode_threads, options.decode_memory,
                          options.max_pixels);
  pipeline::InputStream inputs(image_source(images), 0, 1);
  try {
    (void)impl_->run(run, inputs, output);
  } catch (const StopAtFailure&) {
    return output.take_failures();
  }
  return output.take_failures();
}

JobReport Encoder::Impl::run(pipeline::RunOptions run, pipeline::InputStream& inputs,
                             pipeline::Output& output) {
  model::Encoder& encoder = images.get();
  model::require(config.vision, {.kind = model::Features::Kind::kPooled});
  run.loader.row_bytes = static_cast<std::size_t>(config.vision.hidden) * sizeof(float);
  return this->run(run, inputs, output,
                   [&](std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                       std::span<std::byte> rows, const pipeline::OnComputed& on_computed) {
                     encoder.encode(patches, grids, pipeline::as_floats(rows), run.control.stop,
                                    on_computed);
                   });
}

JobReport Encoder::Impl::run(pipeline::RunOptions run, pipeline::InputStream& inputs,
                             pipeline::Output& output, const pipeline::Encode& encode) {
  const pipeline::PixelLayout layout{.preprocessing = config.preprocessing,
                                     .patch = static_cast<int>(config.vision.patch)};
  run.loader.image_bytes = layout.image_bytes();
  run.loader.allocate = [this](std::size_t bytes) { return buffers.take(bytes); };
  model::Encoder& encoder = images.get();
  const auto encode_and_note = [&](std::span<const std::uint8_t> patches,
                                   std::span<const PatchGrid> grids, std::span<std::byte> rows,
                                   const pipeline::OnComputed& on_computed) {
    encode(patches, grids, rows, on_computed);
    if (const std::string note = encoder.take_note(); !note.empty() && run.control.on_note) {
      run.control.on_note(note);
    }
  };
  return pipeline::run_job(
      run, inputs, pipeline::make_prepare(layout),
      [&] { return pipeline::Encode(encode_and_note); }, output);
}

}  // namespace fovea
