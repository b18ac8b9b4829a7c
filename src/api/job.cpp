// embed_job and preprocess_job: run the pipeline of src/pipeline with a model.
#include "fovea/job.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "api/features.hpp"
#include "api/late_encoder.hpp"
#include "backends.hpp"
#include "collection/update.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "core/wording.hpp"
#include "hub/resolve.hpp"
#include "io/text.hpp"
#include "model/calibration.hpp"
#include "model/checkpoint.hpp"
#include "model/config.hpp"
#include "model/encoder.hpp"
#include "pipeline/file_kinds.hpp"
#include "pipeline/fingerprint.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/input_stream.hpp"
#include "pipeline/left_out.hpp"
#include "pipeline/output.hpp"
#include "pipeline/output_files.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/own_outputs.hpp"
#include "pipeline/prepare.hpp"
#include "pipeline/run.hpp"
#include "pipeline/source.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Runs a job and measures its time. Being stopped before the first batch is not an error.
template <typename Job>
JobReport run_timed(const Job& job) {
  const Clock::time_point start = Clock::now();
  JobReport report;
  try {
    report = job();
  } catch (const Interrupted&) {  // before the first batch
    report.interrupted = true;
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

// `job`: EmbedOptions or PreprocessOptions.
template <typename Job>
pipeline::RunOptions run_options(const Job& job, int batch_size,
                                 const pipeline::PixelLayout& layout) {
  if (batch_size < 1) {
    fail("invalid batch size {}; it must be at least 1", batch_size);
  }
  pipeline::RunOptions options;
  options.loader.threads = job.decode_threads > 0 ? job.decode_threads : available_threads();
  options.loader.decode_memory = job.decode_memory;
  options.loader.max_pixels = job.input.max_pixels;
  options.loader.batch_size = static_cast<std::size_t>(batch_size);
  options.loader.image_bytes = layout.image_bytes();
  options.count_inputs = [&input = job.input, &layout](StopFlag stop) {
    return pipeline::count_inputs(input, layout.preprocessing, stop);
  };
  options.max_errors = job.max_errors;
  options.control = job.control;
  return options;
}

// Opens the inputs of a job. Throws before anything is written when they contain no image.
template <typename Job>
pipeline::InputStream open_inputs(const Job& job, const Preprocessing& preprocessing,
                                  pipeline::LeftOut& left_out) {
  pipeline::InputStream inputs(pipeline::make_source(job.input, preprocessing, &left_out),
                               job.input.shard_index, job.input.shard_count);
  pipeline::refuse_own_outputs(job.input, job.output, job.control.stop);
  if (!inputs.has_inputs(job.control.stop)) {
    left_out.fail_without_images(job.input);
  }
  const std::string input_folder = pipeline::input_containing(job.input, job.output);
  if (!input_folder.empty() && job.control.on_note) {
    job.control.on_note(
        fmt::format("the output {} is in the input folder {}, so its files lie among the photos; "
                    "they are not used as inputs and not counted as left out",
                    io::escape(job.output), io::escape(input_folder)));
  }
  return inputs;
}

// Moves the files of a run into place, unless it was interrupted.
JobReport finish_output(JobReport report, pipeline::FileOutput& output,
                        const pipeline::LeftOut& left_out, const JobControl& control) {
  if (!report.interrupted) {
    output.finish();
    left_out.report_to(report, control);
  }
  return report;
}

// The state of one embed_job.
class EmbedJob {
 public:
  explicit EmbedJob(const EmbedOptions& options)
      : options_(options),
        folder_(hub::resolve_model(options.model)),
        config_(model::read_model_config(folder_)),
        layout_{.preprocessing = config_.preprocessing,
                .patch = static_cast<int>(config_.vision.patch)},
        features_(requested_features()),
        encoder_(folder_, options.encoder.calibration, make_backend(options.encoder)),
        batch_size_(options.batch_size != 0 ? options.batch_size : default_batch_size()) {}

  JobReport run() {
    if (options_.update) {
      return run_update();
    }
    pipeline::InputStream inputs = open_inputs(options_, config_.preprocessing, left_out_);
    if (pipeline::is_array_file(options_.output)) {
      return run_to_file(inputs);
    }
    pipeline::FolderOutput output = open_output();
    return run_to_folder(output, inputs);
  }

 private:
  [[nodiscard]] pipeline::RunOptions embed_run_options() {
    pipeline::RunOptions run = run_options(options_, batch_size_, layout_);
    run.loader.row_bytes = result_bytes();
    run.stores_results = features_.has_value();
    run.loader.allocate = [this](std::size_t bytes) { return encoder_.allocate_input(bytes); };
    run.normalize = options_.normalize;
    run.dtype = options_.dtype;
    return run;
  }

  [[nodiscard]] pipeline::Encode load_encoder() {
    return encoder_.load(features_, stored_type(options_.dtype), options_.control.on_note,
                         options_.control.stop);
  }

  void report_device() {
    if (options_.control.on_device && !std::exchange(has_reported_device_, true)) {
      options_.control.on_device(encoder_.backend().description());
    }
  }

  JobReport loop(const pipeline::RunOptions& run, pipeline::InputStream& inputs,
                 pipeline::Output& output) {
    report_device();
    const pipeline::ContentCheck check{.sum = options_.checksum};
    return pipeline::run_job(
        run, inputs, pipeline::make_prepare(layout_, check), [this] { return load_encoder(); },
        output);
  }

  JobReport run_to_file(pipeline::InputStream& inputs) {
    if (options_.format != OutputFormat::kNpy || options_.retry_failed) {
      fail("{}: a single .npy file does not support other formats or {}; name a folder",
           io::escape(options_.output), option_words("retry-failed"));
    }
    pipeline::FileOutput output(options_.output, stored_type(options_.dtype),
                                Shape(pipeline::row_shape(rows_identity())));
    return finish_output(loop(embed_run_options(), inputs, output), output, left_out_,
                         options_.control);
  }

  /// The requested features; empty means embeddings. Throws when the model does not provide them.
  [[nodiscard]] std::optional<model::Features> requested_features() const {
    if (!options_.features) {
      require(config_.vision, {.kind = model::Features::Kind::kPooled});
      return std::nullopt;
    }
    if (options_.format != OutputFormat::kNpy) {
      fail("features can only be written as .npy; leave {} out", option_words("format"));
    }
    return to_model_features(*options_.features, config_.vision);
  }

  /// Bytes of the encoder's result for one image.
  [[nodiscard]] std::size_t result_bytes() const {
    return features_ ? feature_bytes(*features_, config_.vision, options_.dtype)
                     : static_cast<std::size_t>(config_.vision.hidden) * sizeof(float);
  }

  [[nodiscard]] int default_batch_size() const {
    const std::int64_t preferred = encoder_.backend().preferred_batch();
    return static_cast<int>(features_ ? feature_batch(preferred, result_bytes()) : preferred);
  }

  [[nodiscard]] std::uint64_t shard_rows() const {
    constexpr std::uint64_t kRows = 65536;
    constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;
    if (options_.shard_rows) {
      return *options_.shard_rows;
    }
    return features_ && features_->of_tokens()
               ? std::clamp<std::uint64_t>(kBytes / result_bytes(), 1, kRows)
               : kRows;
  }

  /// The description of the rows, for the manifest.
  [[nodiscard]] pipeline::JobIdentity rows_identity() const {
    pipeline::JobIdentity rows;
    rows.dimension = config_.vision.hidden;
    rows.normalize = options_.normalize && !features_;
    rows.dtype = options_.dtype;
    if (features_ && options_.features) {
      rows.features = to_string(*options_.features);
      rows.tokens = features_->of_tokens() ? config_.vision.tokens() : 0;
    }
    return rows;
  }

  [[nodiscard]] pipeline::JobIdentity identity() const {
    if (options_.shard_rows == std::uint64_t{0}) {
      fail("invalid number of rows per embeddings file 0; it must be at least 1");
    }
    const Precision precision = encoder_.backend().precision();
    fs::path calibration;
    if (info_of(precision).calibrated) {
      const model::Checkpoint checkpoint(folder_, options_.control.stop, model::Tower::kVision,
                                         options_.encoder.calibration);
      calibration = model::find_calibration(checkpoint, precision);
      if (std::error_code error; !fs::exists(calibration, error)) {
        calibration.clear();  // the encoder reports the error, with the remedy
      }
    }
    std::error_code ignored;  // the working directory may have been removed
    pipeline::JobIdentity identity = rows_identity();
    identity.model = options_.model;
    identity.working_folder = fs::current_path(ignored);
    identity.model_sha256 =
        pipeline::model_fingerprint(folder_, calibration, options_.control.stop);
    identity.preprocessing = config_.preprocessing;
    identity.preprocessing_sha256 = pipeline::preprocessing_fingerprint(config_.preprocessing);
    identity.precision = std::string(to_string(precision));
    identity.format = options_.format;
    identity.shard_rows = shard_rows();
    identity.shard_index = options_.input.shard_index;
    identity.shard_count = options_.input.shard_count;
    return identity;
  }

  [[nodiscard]] pipeline::FolderOutput open_output() const {
    return {options_.output, identity(), options_.overwrite, std::chrono::milliseconds(50),
            options_.control.stop};
  }

  JobReport run_to_folder(pipeline::FolderOutput& output, pipeline::InputStream& inputs) {
    const pipeline::JobState previous_state = output.state();
    if (options_.retry_failed && !previous_state.finished && !previous_state.retrying) {
      fail(
          "{}: there is nothing to retry before the job is finished; run it without "
          "{} first",
          io::escape(options_.output), option_words("retry-failed"));
    }
    if (previous_state.finished && (!options_.retry_failed || previous_state.failed == 0)) {
      check_unchanged(inputs, previous_state);
      output.set_left_out(left_out_.counts());
      return {.rows = previous_state.rows,
              .failed = previous_state.failed,
              .left_out = left_out_.counts(),
              .images_with_lost_range = previous_state.lost_range,
              .resumed = true,
              .already_done = true};
    }
    // The whole list of failed inputs is read before anything is changed.
    if (previous_state.finished || previous_state.retrying) {
      inputs.select_only(output.retry_names());
    }
    if (previous_state.finished) {
      output.begin_retry();
    }
    const pipeline::JobState& state = output.state();
    const bool retrying = state.retrying;
    const std::uint64_t rows_before = state.rows;
    try {
      inputs.skip(state.inputs, state.names, options_.control.stop);
    } catch (const Error& error) {
      fail_for_other_inputs(error);
    }
    output.begin();
    pipeline::RunOptions run = embed_run_options();
    run.rows_before = rows_before;
    run.failed_before = state.failed;
    if (retrying) {
      run.count_inputs = nullptr;
    }
    JobReport report;
    try {
      report = loop(run, inputs, output);
    } catch (const Error& error) {
      if (output.state().inputs == 0) {
        throw;
      }
      fail("{}. The work done so far is kept in {}: the same command resumes from there",
           error.what(), io::escape(options_.output));
    }
    report.resumed = output.exists();
    if (report.interrupted) {
      return report;
    }
    for (const auto& [name, count] : inputs.missing_names()) {
      for (std::uint64_t repetition = 0; repetition < count; ++repetition) {
        output.add_lost(name, "is no longer among the inputs");
      }
    }
    output.set_left_out(left_out_.counts());
    output.finish();
    report.failed = output.state().failed;
    left_out_.report_to(report, options_.control);
    report.images_with_lost_range = output.state().lost_range;
    return report;
  }

  /// Throws the error for inputs that no longer match the output, with the options to proceed.
  [[noreturn]] void fail_for_other_inputs(const Error& error) const {
    rethrow_unless_finding(error);
    fail("{}: {}; {} brings it up to date, {} starts again", io::escape(options_.output),
         error.what(), option_words("update"), option_words("overwrite"));
  }

  void check_unchanged(pipeline::InputStream& inputs,
                       const pipeline::JobState& previous_state) const {
    try {
      inputs.skip(previous_state.all_inputs, previous_state.all_names, options_.control.stop);
      const std::uint64_t new_inputs = inputs.skip_rest(options_.control.stop);
      if (new_inputs > 0) {
        fail("the inputs have changed since this output was finished: there are {} more",
             new_inputs);
      }
    } catch (const Error& error) {
      fail_for_other_inputs(error);
    }
  }

  // Checks that an output can be updated. Messages name the options as the user types them.
  void check_updatable() const {
    const std::string_view other = pipeline::is_array_file(options_.output) ? "a single .npy file"
                                   : options_.input.synthetic > 0 ? "an output of synthetic images"
                                   : options_.overwrite           ? "an output to be overwritten"
                                   : options_.retry_failed
                                       ? "an output whose failed inputs are retried"
                                       : "";
    if (!other.empty()) {
      fail("{}: {} cannot be updated{}", io::escape(options_.output), other,
           pipeline::is_array_file(options_.output)
               ? ", because it does not record its model; name a folder"
               : "");
    }
  }

  // Finishes an unfinished output if the inputs that are done have not changed. Otherwise returns
  // nothing, and the update has to compare the inputs one by one.
  std::optional<JobReport> finish_unfinished(pipeline::FolderOutput& output,
                                             pipeline::InputStream& inputs) {
    const pipeline::JobState& state = output.state();
    if (state.finished || state.retrying || !pipeline::can_be_read_again(options_.input)) {
      return std::nullopt;
    }
    {
      pipeline::LeftOut ignored(options_.output);
      pipeline::InputStream trial_inputs(
          pipeline::make_source(options_.input, config_.preprocessing, &ignored),
          options_.input.shard_index, options_.input.shard_count);
      if (!pipeline::finding_of([&] {
             trial_inputs.skip(state.inputs, state.names, options_.control.stop);
           }).empty()) {
        return std::nullopt;
      }
    }
    return run_to_folder(output, inputs);
  }

  JobReport run_update() {
    check_updatable();
    std::optional<JobReport> first;
    {
      pipeline::InputStream inputs = open_inputs(options_, config_.preprocessing, left_out_);
      pipeline::FolderOutput output = open_output();
      if (!output.exists()) {
        return run_to_folder(output, inputs);
      }
      first = finish_unfinished(output, inputs);
      if (!first) {
        return update(output, inputs);
      }
      if (first->interrupted) {
        return *first;
      }
    }
    // Photos that earlier runs embedded may have changed since.
    left_out_ = pipeline::LeftOut(options_.output);
    pipeline::InputStream inputs = open_inputs(options_, config_.preprocessing, left_out_);
    pipeline::FolderOutput output = open_output();
    JobReport report = update(output, inputs);
    report.new_rows += first->new_rows;
    return report;
  }

  // Reads the lines of errors.jsonl.
  [[nodiscard]] std::unordered_set<std::string> known_failures(
      const pipeline::FolderOutput& output) const {
    std::unordered_set<std::string> lines;
    const pipeline::StoredFile errors(*output.folder(), pipeline::kErrorsFile);
    errors.each_line(errors.size(), options_.control.stop,
                     [&](std::string_view line, std::uint64_t /*number*/) {
                       lines.insert(std::string(line) + "\n");
                     });
    return lines;
  }

  JobReport update(pipeline::FolderOutput& output, pipeline::InputStream& inputs) {
    if (output.manifest().version < pipeline::kFirstSummedVersion) {
      fail(
          "{}: this output was made by an earlier version of Fovea, whose indexes do not record "
          "the sizes and dates of files, so it cannot be updated; make it again with {}",
          io::escape(options_.output), option_words("overwrite"));
    }
    collection::Update update(output, identity(),
                              {.checksum = options_.checksum,
                               .max_drop = options_.max_drop,
                               .on_note = options_.control.on_note,
                               .stop = options_.control.stop});
    update.select(inputs);
    pipeline::RunOptions run = embed_run_options();
    if (const auto& on_progress = options_.control.on_progress) {
      run.control.on_progress = [&](JobProgress progress) {
        progress.rows += update.unchanged();
        const std::uint64_t done = progress.rows + progress.failed;
        if (progress.seconds_left && progress.images_per_second > 0) {
          progress.seconds_left =
              static_cast<double>(*progress.total_inputs - std::min(done, *progress.total_inputs)) /
              progress.images_per_second;
        }
        on_progress(progress);
      };
    }
    // Inputs that fail as they did before are listed again, but not reported to the caller.
    std::uint64_t newly_failed = 0;
    run.control.on_failure = [&, known = known_failures(output)](const JobFailure& failure) {
      if (known.contains(
              pipeline::format_error_line(io::unescape(failure.source), failure.error))) {
        return;
      }
      ++newly_failed;
      if (options_.control.on_failure) {
        options_.control.on_failure(failure);
      }
    };
    // The model is loaded only when there is something to compute.
    const auto load_and_encode = [this] {
      return [this, encode = pipeline::Encode()](
                 std::span<const std::uint8_t> patches, std::span<const PatchGrid> grids,
                 std::span<std::byte> rows, const pipeline::OnComputed& on_computed) mutable {
        if (!encode) {
          report_device();
          encode = load_encoder();
        }
        encode(patches, grids, rows, on_computed);
      };
    };
    JobReport report;
    try {
      report = pipeline::run_job(run, inputs, pipeline::make_prepare(layout_, update.contents()),
                                 load_and_encode, update.staging());
    } catch (const Error& error) {
      fail("{}. {} is unchanged; the same command resumes the update", error.what(),
           io::escape(options_.output));
    }
    report.resumed = true;
    if (report.interrupted) {
      report.rows = output.state().rows;
      return report;
    }
    report.update = update.finish(left_out_.empty_folders(), left_out_.counts());
    const pipeline::JobState& state = output.state();
    report.rows = state.rows;
    report.failed = state.failed;
    report.newly_failed = newly_failed;
    left_out_.report_to(report, options_.control);
    report.images_with_lost_range = state.lost_range;
    return report;
  }

  const EmbedOptions& options_;
  bool has_reported_device_ = false;
  pipeline::LeftOut left_out_{options_.output};
  fs::path folder_;
  model::ModelConfig config_;
  pipeline::PixelLayout layout_;
  std::optional<model::Features> features_;
  LateEncoder encoder_;
  int batch_size_;
};

JobReport run_preprocess(const PreprocessOptions& options) {
  check_output_name(options.output, true);
  pipeline::refuse_foreign_files(options.output, options.overwrite);
  const model::ModelConfig config = model::read_model_config(hub::resolve_model(options.model));
  const pipeline::PixelLayout layout{.preprocessing = config.preprocessing, .patch = 0};
  pipeline::LeftOut left_out(options.output);
  pipeline::InputStream inputs = open_inputs(options, layout.preprocessing, left_out);
  pipeline::FileOutput output(options.output, DType::kU8, layout.row_shape());
  constexpr int kBatch = 32;
  const pipeline::RunOptions run = run_options(options, kBatch, layout);
  return finish_output(pipeline::run_job(run, inputs, pipeline::make_prepare(layout), {}, output),
                       output, left_out, options.control);
}

}  // namespace

void check_output_name(const std::string& output, bool only_array) {
  const std::string escaped_name = io::escape(output);
  std::error_code absent;
  if (pipeline::is_array_file(output)) {
    return;
  }
  if (only_array) {
    fail("{}: the output must end in .npy, for example pixels.npy", escaped_name);
  }
  const std::string_view kind = pipeline::file_kind(fs::path(output).filename().native());
  if (kind != pipeline::kOtherKind && !fs::is_directory(output, absent)) {
    fail("{}: unsupported output; expected a folder, or one file that ends in .npy", escaped_name);
  }
}

JobReport embed_job(const EmbedOptions& options) {
  return run_timed([&] {
    check_output_name(options.output, false);
    pipeline::refuse_foreign_files(options.output, options.overwrite);
    return EmbedJob(options).run();
  });
}

JobReport preprocess_job(const PreprocessOptions& options) {
  return run_timed([&] { return run_preprocess(options); });
}

}  // namespace fovea
