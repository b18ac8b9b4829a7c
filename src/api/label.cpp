// Labels images with the encoder and the pipeline of jobs, into an output that compares rows with
// labels instead of storing them.
#include "fovea/label.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "api/encoder_impl.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "io/text.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/left_out.hpp"
#include "pipeline/output.hpp"
#include "pipeline/source.hpp"

namespace fovea {
namespace {

constexpr std::string_view kPlaceholder = "{}";

std::string sentence(const std::string& pattern, const std::string& label) {
  const std::size_t position = pattern.find(kPlaceholder);
  if (position == std::string::npos ||
      pattern.find(kPlaceholder, position + kPlaceholder.size()) != std::string::npos) {
    fail("invalid template \"{}\"; it needs exactly one {{}}, such as \"{}\"", io::escape(pattern),
         kLabelTemplate);
  }
  return pattern.substr(0, position) + label + pattern.substr(position + kPlaceholder.size());
}

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += double{a[i]} * b[i];
  }
  return sum;
}

// Compares each row with the labels.
class LabelOutput final : public pipeline::Output {
 public:
  LabelOutput(std::span<const float> labels, std::size_t width, LogitScale scale, StopFlag stop,
              const std::function<void(const LabelledImage&)>& on_image)
      : labels_(labels), width_(width), scale_(scale), stop_(stop), on_image_(on_image) {}

  void append(const pipeline::Batch& batch, std::span<const std::byte> stored) override {
    std::vector<float> row(width_);
    for (const pipeline::Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (slot.failed()) {
        continue;
      }
      const std::size_t row_bytes = width_ * sizeof(float);
      std::memcpy(row.data(), stored.data(), row_bytes);
      stored = stored.subspan(row_bytes);
      LabelledImage image{.source = io::escape(slot.name), .cosines = {}, .scale = scale_};
      for (std::size_t offset = 0; offset < labels_.size(); offset += width_) {
        if (stop_.is_set()) {
          return;
        }
        image.cosines.push_back(product(row, labels_.subspan(offset, width_)));
      }
      on_image_(image);
    }
  }
  void checkpoint() override {}
  void finish() override {}

 private:
  std::span<const float> labels_;
  std::size_t width_;
  LogitScale scale_;
  StopFlag stop_;
  const std::function<void(const LabelledImage&)>& on_image_;
};

}  // namespace

std::vector<float> Encoder::embed_labels(std::span<const std::string> labels,
                                         std::span<const std::string> templates,
                                         const EmbedTextsOptions& options) {
  if (labels.empty() || templates.empty()) {
    fail("no {} was given to compare images with", labels.empty() ? "label" : "template");
  }
  std::vector<std::string> sentences;
  sentences.reserve(labels.size() * templates.size());
  for (const std::string& label : labels) {
    for (const std::string& pattern : templates) {
      sentences.push_back(sentence(pattern, label));
    }
  }
  EmbedTextsOptions unit = options;
  unit.normalize = true;
  const std::vector<float> vectors = embed_texts(sentences, unit);
  if (templates.size() == 1) {
    return vectors;
  }
  const auto width = static_cast<std::size_t>(dimension());
  std::vector<float> means;
  means.reserve(labels.size() * width);
  std::vector<double> sum(width);
  for (std::size_t label = 0; label < labels.size(); ++label) {
    StopFlag(options.stop).poll();
    std::ranges::fill(sum, 0.0);
    for (std::size_t i = 0; i < templates.size() * width; ++i) {
      sum[i % width] += vectors[label * templates.size() * width + i];
    }
    double squares = 0;
    for (const double value : sum) {
      squares += value * value;
    }
    if (squares == 0) {
      fail("label \"{}\": the vectors of its sentences cancel out", io::escape(labels[label]));
    }
    for (const double value : sum) {
      means.push_back(static_cast<float>(value / std::sqrt(squares)));
    }
  }
  return means;
}

JobReport Encoder::label(const LabelOptions& options,
                         const std::function<void(const LabelledImage&)>& on_image) {
  const auto start = std::chrono::steady_clock::now();
  if (options.batch_size < 0 || options.decode_threads < 0) {
    fail("invalid batch size {} or number of decode threads {}; use 0 for the defaults",
         options.batch_size, options.decode_threads);
  }
  EmbedTextsOptions embedding;
  embedding.clean = options.clean;
  embedding.stop = options.control.stop;
  embedding.on_note = options.control.on_note;
  if (options.on_labels) {
    const std::size_t sentences = options.labels.size() * options.templates.size();
    embedding.on_progress = [&, sentences](std::size_t done) {
      options.on_labels(done, sentences);
    };
  }
  pipeline::LeftOut left_out("");
  pipeline::InputStream inputs(pipeline::make_source(options.input, preprocessing(), &left_out),
                               options.input.shard_index, options.input.shard_count);
  pipeline::RunOptions run;
  run.loader.batch_size =
      static_cast<std::size_t>(options.batch_size > 0 ? options.batch_size : preferred_batch());
  run.loader.threads = options.decode_threads > 0 ? options.decode_threads : available_threads();
  run.loader.decode_memory = options.decode_memory;
  run.loader.max_pixels = options.input.max_pixels;
  run.max_errors = options.max_errors;
  run.control = options.control;
  run.count_inputs = [&](StopFlag stop) {
    return pipeline::count_inputs(options.input, preprocessing(), stop);
  };
  JobReport report;
  try {
    const std::vector<float> labels = embed_labels(options.labels, options.templates, embedding);
    if (options.control.on_device) {
      options.control.on_device(device());
    }
    if (!inputs.has_inputs(options.control.stop)) {
      left_out.fail_without_images(options.input);
    }
    LabelOutput output(labels, static_cast<std::size_t>(dimension()), logit_scale(),
                       options.control.stop, on_image);
    report = impl_->run(run, inputs, output);
    left_out.report_to(report, options.control);
  } catch (const Interrupted&) {  // before the first batch
    report.interrupted = true;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fovea
