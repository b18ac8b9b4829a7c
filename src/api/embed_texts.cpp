// embed_texts_job: embeds texts into an array and an index, as embed_job does for images.
#include <algorithm>
#include <chrono>
#include <span>

#include "core/error.hpp"
#include "fovea/job.hpp"
#include "pipeline/output.hpp"
#include "pipeline/own_outputs.hpp"
#include "pipeline/run.hpp"

namespace fovea {
namespace {

/// Number of texts that are embedded and written at a time.
constexpr std::size_t kTextsAtOnce = 4096;

void write_texts(const EmbedTextsJob& options, Encoder& encoder, JobReport& report) {
  const DType dtype = options.dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16;
  const auto width = static_cast<std::size_t>(encoder.dimension());
  pipeline::FileOutput output(options.output, dtype, {encoder.dimension()});
  EmbedTextsOptions embedding;
  embedding.clean = options.clean;
  embedding.normalize = options.normalize;
  embedding.stop = options.control.stop;
  embedding.on_note = options.control.on_note;
  for (std::size_t first = 0; first < options.texts.size(); first += kTextsAtOnce) {
    const std::span texts =
        std::span(options.texts)
            .subspan(first, std::min(kTextsAtOnce, options.texts.size() - first));
    const std::vector<float> rows = encoder.embed_texts(texts, embedding);
    pipeline::Batch batch;
    batch.count = texts.size();
    batch.converted.resize(rows.size() * size_of(dtype));
    const std::size_t row_bytes = width * size_of(dtype);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      batch.slots.emplace_back().name = texts[i];
      if (!pipeline::store_embedding(std::span(rows).subspan(i * width, width), false,
                                     options.dtype, batch.converted.data() + i * row_bytes)) {
        fail("text {}: its embedding is too large for f16; write f32", first + i + 1);
      }
    }
    output.append(batch, batch.converted);
    report.rows += texts.size();
    report.new_rows = report.rows;
    if (options.control.on_progress) {
      options.control.on_progress({.rows = report.rows,
                                   .new_rows = report.rows,
                                   .total_inputs = options.texts.size(),
                                   .seconds_left = std::nullopt});
    }
  }
  output.finish();
}

}  // namespace

JobReport embed_texts_job(const EmbedTextsJob& options) {
  const auto start = std::chrono::steady_clock::now();
  check_output_name(options.output, true);
  pipeline::refuse_foreign_files(options.output, options.overwrite);
  if (options.texts.empty()) {
    fail("there is no text to embed");
  }
  JobReport report;
  try {
    EncoderOptions encoder_options = options.encoder;
    encoder_options.first = Tower::kTexts;
    Encoder encoder(options.model, encoder_options);
    if (options.control.on_device) {
      options.control.on_device(encoder.device());
    }
    write_texts(options, encoder, report);
  } catch (const Interrupted&) {
    report.interrupted = true;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.images_per_second = static_cast<double>(report.new_rows) / report.seconds;
  return report;
}

}  // namespace fovea
