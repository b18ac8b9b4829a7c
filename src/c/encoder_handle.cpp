// fovea_encoder over the public Encoder, and the runs that it starts.
#include "c/encoder_handle.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "c/embed_run.hpp"
#include "c/lifetime.hpp"
#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/c/encoder.h"
#include "fovea/encoder.hpp"

namespace fovea::c {
namespace {

/// Copies a text. reserve() throws std::length_error for an impossible size before anything is
/// read.
std::string copy_text(const char* data, std::size_t size) {
  std::string text;
  text.reserve(size);
  text.append(std::string_view(data, size));
  return text;
}

}  // namespace

ImageInput image_input(const fovea_image& image, std::size_t index) {
  if (image.data == nullptr && image.size > 0) {
    fail("the data of image {} is NULL", index);
  }
  const std::span data(static_cast<const std::byte*>(image.data), image.size);
  switch (image.kind) {
    case FOVEA_IMAGE_FILE:
      return {.kind = ImageInput::Kind::kFile,
              .path = copy_text(static_cast<const char*>(image.data), image.size)};
    case FOVEA_IMAGE_ENCODED:
      return {.kind = ImageInput::Kind::kEncoded, .data = data};
    case FOVEA_IMAGE_PIXELS:
      return {.kind = ImageInput::Kind::kPixels,
              .data = data,
              .width = image.width,
              .height = image.height};
    default:
      fail("image {} has the unknown kind {}", index, image.kind);
  }
}

TextClean text_clean(std::int32_t clean) {
  constexpr TextClean kCleanings[] = {TextClean::kAuto, TextClean::kLower, TextClean::kCanonicalize,
                                      TextClean::kNone};  // in the order of fovea_text_clean
  if (clean < FOVEA_TEXT_CLEAN_AUTO || clean > FOVEA_TEXT_CLEAN_NONE) {
    fail("invalid fovea_text_clean {}", clean);
  }
  return kCleanings[clean];
}

std::vector<ImageInput> image_inputs(const fovea_image* images, std::size_t count) {
  std::vector<ImageInput> inputs;
  inputs.reserve(count);
  for (const fovea_image& image : checked_span(images, count, "images")) {
    inputs.push_back(image_input(image, inputs.size()));
  }
  return inputs;
}

void require_here(const fovea_encoder* encoder) {
  require_pointer(encoder, "encoder");
  require_this_process(encoder->process, "this encoder", kLoadThere);
}

namespace {

Tower tower(std::int32_t number) {
  if (number != FOVEA_TOWER_IMAGES && number != FOVEA_TOWER_TEXTS) {
    fail("invalid fovea_tower {}", number);
  }
  return number == FOVEA_TOWER_IMAGES ? Tower::kImages : Tower::kTexts;
}

/// Returns the number of values in `count` rows. Throws when the encoder belongs to another
/// process, or when so many rows cannot fit into memory.
std::size_t row_value_count(const fovea_encoder* encoder, std::size_t count,
                            std::string_view inputs) {
  require_here(encoder);
  return value_count(count, static_cast<std::size_t>(encoder->encoder->dimension()), inputs);
}

/// Copies the texts. `item` names one of them in messages: "text".
std::vector<std::string> copy_texts(const fovea_text* texts, std::size_t count,
                                    std::string_view item) {
  std::vector<std::string> copies;
  copies.reserve(count);
  for (const fovea_text& text : checked_span(texts, count, fmt::format("{}s", item))) {
    if (text.data == nullptr && text.size > 0) {
      fail("the data of {} {} is NULL", item, copies.size());
    }
    copies.push_back(copy_text(text.data, text.size));
  }
  return copies;
}

std::unique_ptr<fovea_embedding> start_texts(fovea_encoder* encoder, const fovea_text* texts,
                                             std::size_t count,
                                             const fovea_embed_texts_options* options,
                                             float* rows) {
  require_pointer(options, "options");
  const std::span out(rows, row_value_count(encoder, count, "texts"));
  if (count > 0) {
    require_pointer(rows, "rows");
  }
  std::vector<std::string> inputs = copy_texts(texts, count, "text");
  return std::make_unique<fovea_embedding>(
      count, [shared = encoder->encoder, inputs = std::move(inputs), out,
              clean = text_clean(options->clean),
              normalize = options->normalize != 0](const fovea_embedding::Control& control) {
        std::ranges::copy(shared->embed_texts(inputs, {.clean = clean,
                                                       .normalize = normalize,
                                                       .stop = control.stop,
                                                       .on_progress = control.on_progress,
                                                       .on_note = control.on_note}),
                          out.begin());
        return std::vector<ImageFailure>();
      });
}

std::unique_ptr<fovea_embedding> start_labels(fovea_encoder* encoder, const fovea_text* labels,
                                              std::size_t label_count, const fovea_text* templates,
                                              std::size_t template_count, std::int32_t clean,
                                              float* rows) {
  const std::span out(rows, row_value_count(encoder, label_count, "labels"));
  require_pointer(rows, "rows");
  return std::make_unique<fovea_embedding>(
      label_count * template_count,
      [shared = encoder->encoder, names = copy_texts(labels, label_count, "label"),
       patterns = copy_texts(templates, template_count, "template"), out,
       cleaning = text_clean(clean)](const fovea_embedding::Control& control) {
        std::ranges::copy(shared->embed_labels(names, patterns,
                                               {.clean = cleaning,
                                                .normalize = true,
                                                .stop = control.stop,
                                                .on_progress = control.on_progress,
                                                .on_note = control.on_note}),
                          out.begin());
        return std::vector<ImageFailure>();
      });
}

void wait_for_end(fovea_embedding& run) {
  while (!run.wait(std::chrono::hours(1))) {
  }
  if (!run.notes().empty()) {
    send_note(run.notes());
  }
}

}  // namespace
}  // namespace fovea::c

using fovea::c::guarded;
using fovea::c::query_or;
using fovea::c::require_pointer;
using fovea::c::require_pointers;

fovea_status fovea_encoder_load(const char* model, const char* device, const char* precision,
                                int32_t threads, fovea_encoder** encoder) {
  return fovea_encoder_load_tower(model, device, precision, threads, FOVEA_TOWER_IMAGES, encoder);
}

fovea_status fovea_encoder_load_tower(const char* model, const char* device, const char* precision,
                                      int32_t threads, int32_t first, fovea_encoder** encoder) {
  return fovea_encoder_load_calibrated(model, device, precision, threads, first, nullptr, encoder);
}

fovea_status fovea_encoder_load_calibrated(const char* model, const char* device,
                                           const char* precision, int32_t threads, int32_t first,
                                           const char* calibration, fovea_encoder** encoder) {
  return guarded([&] {
    require_pointers(
        {{model, "model"}, {device, "device"}, {precision, "precision"}, {encoder, "encoder"}});
    const fovea::c::Activity activity;
    const fovea::EncoderOptions options{.device = device,
                                        .precision = fovea::parse_precision(precision),
                                        .threads = threads,
                                        .calibration = calibration == nullptr ? "" : calibration,
                                        .first = fovea::c::tower(first)};
    auto loaded = std::make_unique<fovea_encoder>();
    loaded->encoder = std::make_shared<fovea::Encoder>(model, options);
    loaded->device = loaded->encoder->device();
    loaded->precision = to_string(loaded->encoder->precision());
    *encoder = loaded.release();
  });
}

void fovea_encoder_free(fovea_encoder* encoder) {
  fovea::c::free_here(encoder);
}

int64_t fovea_encoder_dimension(const fovea_encoder* encoder) {
  return query_or(encoder, 0, [](auto& object) { return object.encoder->dimension(); });
}

int32_t fovea_encoder_height(const fovea_encoder* encoder) {
  return query_or(encoder, 0, [](auto& object) { return object.encoder->preprocessing().height; });
}

int32_t fovea_encoder_width(const fovea_encoder* encoder) {
  return query_or(encoder, 0, [](auto& object) { return object.encoder->preprocessing().width; });
}

int64_t fovea_encoder_batch_size(const fovea_encoder* encoder) {
  return query_or(encoder, 0, [](auto& object) { return object.encoder->preferred_batch(); });
}

const char* fovea_encoder_device(const fovea_encoder* encoder) {
  return query_or(encoder, "", [](auto& object) { return object.device.c_str(); });
}

const char* fovea_encoder_precision(const fovea_encoder* encoder) {
  return query_or(encoder, "", [](auto& object) { return object.precision.c_str(); });
}

fovea_status fovea_encoder_load_texts(fovea_encoder* encoder) {
  return guarded([&] {
    fovea::c::require_here(encoder);
    const fovea::c::Activity activity;
    encoder->encoder->load_texts();
  });
}

fovea_status fovea_encoder_logit_scale(fovea_encoder* encoder, double* factor, double* bias) {
  return guarded([&] {
    fovea::c::require_here(encoder);
    require_pointers({{factor, "factor"}, {bias, "bias"}});
    const fovea::c::Activity activity;
    const fovea::LogitScale scale = encoder->encoder->logit_scale();
    *factor = scale.factor;
    *bias = scale.bias;
  });
}

fovea_status fovea_embed_start(fovea_encoder* encoder, const fovea_image* images, size_t count,
                               const fovea_embed_options* options, float* rows,
                               fovea_embedding** run) {
  return guarded([&] {
    require_pointers({{options, "options"}, {run, "run"}});
    const std::span out(rows, fovea::c::row_value_count(encoder, count, "images"));
    std::vector<fovea::ImageInput> inputs = fovea::c::image_inputs(images, count);
    if (count > 0) {
      require_pointer(rows, "rows");
    }
    *run = std::make_unique<fovea_embedding>(count, [shared = encoder->encoder,
                                                     inputs = std::move(inputs), out,
                                                     c_options = *options](
                                                        const fovea_embedding::Control& control) {
             fovea::EmbedImagesOptions embed_options;
             embed_options.batch_size = c_options.batch_size;
             embed_options.decode_threads = c_options.decode_threads;
             embed_options.decode_memory = c_options.decode_memory;
             embed_options.max_pixels = c_options.max_pixels;
             embed_options.normalize = c_options.normalize != 0;
             embed_options.stop_at_failure = c_options.stop_at_failure != 0;
             embed_options.stop = control.stop;
             embed_options.on_progress = control.on_progress;
             embed_options.on_note = control.on_note;
             return shared->embed_images(inputs, out, embed_options);
           }).release();
  });
}

fovea_status fovea_embed_texts_start(fovea_encoder* encoder, const fovea_text* texts, size_t count,
                                     const fovea_embed_texts_options* options, float* rows,
                                     fovea_embedding** run) {
  return guarded([&] {
    require_pointer(static_cast<const void*>(run), "run");
    *run = fovea::c::start_texts(encoder, texts, count, options, rows).release();
  });
}

fovea_status fovea_embed_texts(fovea_encoder* encoder, const fovea_text* texts, size_t count,
                               const fovea_embed_texts_options* options, float* rows) {
  return guarded([&] {
    const fovea::c::Activity activity;
    fovea::c::wait_for_end(*fovea::c::start_texts(encoder, texts, count, options, rows));
  });
}

fovea_status fovea_embed_labels_start(fovea_encoder* encoder, const fovea_text* labels,
                                      size_t label_count, const fovea_text* templates,
                                      size_t template_count, int32_t clean, float* rows,
                                      fovea_embedding** run) {
  return guarded([&] {
    require_pointer(static_cast<const void*>(run), "run");
    *run =
        fovea::c::start_labels(encoder, labels, label_count, templates, template_count, clean, rows)
            .release();
  });
}

fovea_status fovea_embed_labels(fovea_encoder* encoder, const fovea_text* labels,
                                size_t label_count, const fovea_text* templates,
                                size_t template_count, int32_t clean, float* rows) {
  return guarded([&] {
    const fovea::c::Activity activity;
    fovea::c::wait_for_end(*fovea::c::start_labels(encoder, labels, label_count, templates,
                                                   template_count, clean, rows));
  });
}
