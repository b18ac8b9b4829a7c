// Merges outputs into one: determines the order of their inputs, and writes their rows in it.
#include "collection/merge.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/ranges.h>

#include "collection/input_order.hpp"
#include "collection/new_output.hpp"
#include "collection/shard_set.hpp"
#include "collection/stored_rows.hpp"
#include "core/error.hpp"
#include "core/stop.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"
#include "pipeline/fingerprint.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/output_lock.hpp"
#include "pipeline/output_proof.hpp"
#include "pipeline/replacement.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::collection {
namespace {

namespace fs = std::filesystem;
using pipeline::JobIdentity;

// An input that failed.
struct Failure {
  std::string source;  // the name of the input
  std::string line;    // its line in errors.jsonl
};

// A finished output, verified and locked so that no job changes it meanwhile.
class MergedOutput {
 public:
  MergedOutput(const std::string& path, StopFlag stop)
      : display_path_(io::escape(path)),
        folder_(std::make_shared<const io::Folder>(path)),
        lock_(pipeline::lock_shared(*folder_)),
        manifest_(read_manifest()) {
    (void)pipeline::prove(*folder_, manifest_, nullptr, stop);
    rows_ = std::make_unique<const StoredRows>(folder_, manifest_, stop);
    const pipeline::StoredFile errors(*folder_, pipeline::kErrorsFile);
    errors.each_line(errors.size(), stop, [&](std::string_view line, std::uint64_t /*number*/) {
      failures_.push_back({pipeline::parse_error_source(line), std::string(line) + "\n"});
    });
  }

  [[nodiscard]] const std::string& display_path() const { return display_path_; }
  [[nodiscard]] const io::Folder& folder() const { return *folder_; }
  [[nodiscard]] const JobIdentity& identity() const { return manifest_.identity; }
  [[nodiscard]] const pipeline::JobState& state() const { return manifest_.state; }
  [[nodiscard]] const StoredRows& rows() const { return *rows_; }
  [[nodiscard]] const std::vector<Failure>& failures() const { return failures_; }
  [[nodiscard]] Key photo_key(const Failure& failure) const {
    return name_key(absolute_name(rows_->working_folder(), failure.source));
  }

  /// Returns for each input, in order, whether it failed; nullopt when the order is unknown.
  [[nodiscard]] std::optional<std::vector<bool>> find_order(StopFlag stop) const {
    std::vector<OrderState> states;
    bool retried = false;
    const pipeline::StoredFile journal(*folder_, pipeline::kJournalFile);
    journal.each_line(journal.size(), stop, [&](std::string_view text, std::uint64_t /*number*/) {
      const pipeline::JournalLine line = pipeline::parse_journal_line(text);
      if (const auto* const state = std::get_if<pipeline::JobState>(&line)) {
        states.push_back({.names = state->names, .rows = state->rows, .failed = state->failed});
      }
      retried = retried || std::holds_alternative<pipeline::RetryRecord>(line);
    });
    // A retry removes the inputs that it embeds from errors.jsonl, so the order is lost.
    return retried ? std::nullopt
                   : input_order(
                         states, [&](std::uint64_t row) { return rows_->line(row).source; },
                         [&](std::uint64_t number) { return failures_[number].source; });
  }

 private:
  [[nodiscard]] pipeline::Manifest read_manifest() const {
    const pipeline::StoredFile file(*folder_, pipeline::kManifestFile);
    const std::string text = file.text(pipeline::kMaxManifestBytes);
    pipeline::Manifest manifest;
    if (const std::string problem =
            pipeline::finding_of([&] { manifest = pipeline::parse_manifest(text); });
        !problem.empty()) {
      fail("{}: {}", file.display_path(), problem);
    }
    if (!manifest.state.finished || pipeline::interrupted_replacement(*folder_)) {
      fail("{}: the job is not finished; run its embed command again first", display_path_);
    }
    if (manifest.version < pipeline::kFirstSummedVersion) {
      fail(
          "{}: cannot be merged, because an earlier version of Fovea made it without checksums; "
          "make it again",
          display_path_);
    }
    return manifest;
  }

  std::string display_path_;
  std::shared_ptr<const io::Folder> folder_;
  io::OpenedFile lock_;
  pipeline::Manifest manifest_;
  std::unique_ptr<const StoredRows> rows_;
  std::vector<Failure> failures_;
};

using Outputs = std::vector<std::unique_ptr<MergedOutput>>;

// An input of the result: a row or a failed input of one of the outputs.
struct MergedInput {
  std::uint32_t output = 0;
  std::uint32_t number = 0;  // the index of the row or of the failure in the output
  bool failed = false;
};

JobIdentity without_shard(JobIdentity identity) {
  identity.shard_index = 0;
  identity.shard_count = 1;
  identity.shard_rows = 1;
  return identity;
}

void check_same_job(const Outputs& outputs) {
  const MergedOutput& first = *outputs.front();
  for (const auto& output : outputs) {
    const std::vector<std::string> differences =
        pipeline::differences(without_shard(first.identity()), without_shard(output->identity()));
    if (!differences.empty()) {
      fail("{} and {} cannot be merged: {} (\"there\" is {})", first.display_path(),
           output->display_path(), fmt::format("{}", fmt::join(differences, ", ")),
           first.display_path());
    }
  }
}

// Maps each photo to the output that it is taken from, so that duplicates can be dropped.
class PhotoOwners {
 public:
  explicit PhotoOwners(const Outputs& outputs) {
    for (std::uint32_t number = 0; number < outputs.size(); ++number) {
      const MergedOutput& output = *outputs[number];
      for (std::size_t row = 0; row < output.rows().size(); ++row) {
        owners_.push_back({output.rows()[row].photo, number});
      }
      for (const Failure& failure : output.failures()) {
        owners_.push_back({output.photo_key(failure), number + kFailureFlag});
      }
    }
    std::ranges::sort(owners_);
  }

  /// Returns the first output that has a row of the photo, or else the first where it failed.
  [[nodiscard]] std::uint32_t owner(const Key& photo) const {
    const auto first = std::ranges::lower_bound(owners_, std::pair(photo, std::uint32_t{0}));
    return first->second % kFailureFlag;
  }

 private:
  // Sorts failures after rows.
  static constexpr std::uint32_t kFailureFlag = std::uint32_t{1} << 31U;
  std::vector<std::pair<Key, std::uint32_t>> owners_;
};

class Merge {
 public:
  explicit Merge(const MergeOptions& options) : options_(options), stop_(options.stop) {
    if (options.outputs.empty()) {
      fail("no outputs to merge were given");
    }
    for (const std::string& path : options.outputs) {
      std::error_code ignored;
      if (fs::equivalent(path, options.output, ignored)) {
        fail("{}: is one of the outputs to merge; choose another folder for the result",
             io::escape(options.output));
      }
      for (const auto& other : outputs_) {
        if (fs::equivalent(path, other->folder().path(), ignored)) {
          fail("the same output is given twice: {} and {}", other->display_path(),
               io::escape(path));
        }
      }
      outputs_.push_back(std::make_unique<MergedOutput>(path, stop_));
    }
    check_same_job(outputs_);
    std::vector<ShardOutput> shard_outputs;
    for (const auto& output : outputs_) {
      shard_outputs.push_back({output->display_path(), &output->identity()});
    }
    missing_ = find_missing_shards(shard_outputs, options_.partial);
    report_.missing =
        missing_shards_words(missing_.numbers, missing_.numbers.size(), missing_.count);
    has_common_folder_ = std::ranges::all_of(outputs_, [this](const auto& output) {
      return output->identity().working_folder == outputs_.front()->identity().working_folder;
    });
  }

  MergeReport run() {
    inputs_ = interleaved_inputs();
    report_.in_input_order = !inputs_.empty();
    if (inputs_.empty()) {
      inputs_ = concatenated_inputs();
    }
    drop_duplicates();
    write();
    return report_;
  }

 private:
  [[nodiscard]] std::vector<MergedInput> concatenated_inputs() const {
    std::vector<MergedInput> inputs;
    for (std::uint32_t output = 0; output < outputs_.size(); ++output) {
      for (const bool failed : {false, true}) {
        const std::size_t count =
            failed ? outputs_[output]->failures().size() : outputs_[output]->rows().size();
        for (std::uint32_t number = 0; number < count; ++number) {
          inputs.push_back({output, number, failed});
        }
      }
    }
    return inputs;
  }

  // Returns the inputs in the order of the job; empty when the outputs are not different shards of
  // one job, or when the order is unknown.
  [[nodiscard]] std::vector<MergedInput> interleaved_inputs() const {
    const std::uint64_t count = outputs_.front()->identity().shard_count;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> shards;
    for (std::uint32_t output = 0; output < outputs_.size(); ++output) {
      const JobIdentity& identity = outputs_[output]->identity();
      shards.emplace_back(identity.shard_index, output);
      if (identity.shard_count != count) {
        return {};
      }
    }
    std::ranges::sort(shards);
    if (std::ranges::adjacent_find(shards, {}, [](const auto& shard) { return shard.first; }) !=
            shards.end() ||
        !has_shard_sizes(shards, count)) {
      return {};
    }
    std::vector<std::vector<bool>> orders;
    for (const auto& output : outputs_) {
      auto order = output->find_order(stop_);
      if (!order) {
        return {};
      }
      orders.push_back(std::move(*order));
    }
    std::vector<MergedInput> inputs;
    std::vector<std::uint32_t> next_rows(outputs_.size());
    std::vector<std::uint32_t> next_failures(outputs_.size());
    for (std::uint64_t round = 0;; ++round) {
      const std::size_t previous_size = inputs.size();
      for (const auto& [index, output] : shards) {
        if (round < orders[output].size()) {
          const bool failed = orders[output][round];
          std::uint32_t& number = failed ? next_failures[output] : next_rows[output];
          inputs.push_back({output, number++, failed});
        }
      }
      if (inputs.size() == previous_size) {
        return inputs;
      }
    }
  }

  // Returns whether the outputs have as many inputs as the shards of one job: equally many, or one
  // more in the first shards when the inputs do not divide evenly.
  [[nodiscard]] bool has_shard_sizes(
      const std::vector<std::pair<std::uint64_t, std::uint32_t>>& shards,
      std::uint64_t count) const {
    const auto input_count = [&](std::uint32_t output) {
      return outputs_[output]->state().all_inputs;
    };
    const std::uint64_t max_inputs = input_count(shards.front().second);
    const std::uint64_t min_inputs = input_count(shards.back().second);
    return count > 1 && max_inputs - min_inputs <= 1 &&
           std::ranges::is_sorted(shards, std::greater(),
                                  [&](const auto& shard) { return input_count(shard.second); });
  }

  [[nodiscard]] Key photo_key(const MergedInput& input) const {
    const MergedOutput& output = *outputs_[input.output];
    return input.failed ? output.photo_key(output.failures()[input.number])
                        : output.rows()[input.number].photo;
  }

  [[nodiscard]] std::string result_name(const MergedInput& input) const {
    const MergedOutput& output = *outputs_[input.output];
    std::string name = input.failed ? output.failures()[input.number].source
                                    : output.rows().line(input.number).source;
    return has_common_folder_ ? name : absolute_name(output.rows().working_folder(), name);
  }

  void drop_duplicates() {
    const PhotoOwners owners(outputs_);
    std::optional<MergedInput> first_duplicate;
    const auto is_duplicate = [&](const MergedInput& input) {
      const bool duplicate = owners.owner(photo_key(input)) != input.output;
      if (duplicate && !first_duplicate) {
        first_duplicate = input;
      }
      return duplicate;
    };
    std::vector<MergedInput> unique_inputs;
    std::ranges::copy_if(inputs_, std::back_inserter(unique_inputs),
                         [&](const MergedInput& input) { return !is_duplicate(input); });
    report_.left_out = inputs_.size() - unique_inputs.size();
    if (first_duplicate && !options_.keep_first) {
      fail(
          "{} photos are in several of the outputs, such as {} in {} and {}; {} takes each from "
          "the first output that has it",
          report_.left_out, io::escape(result_name(*first_duplicate)),
          outputs_[owners.owner(photo_key(*first_duplicate))]->display_path(),
          outputs_[first_duplicate->output]->display_path(), option_words("keep-first"));
    }
    for (const MergedInput& input : inputs_) {
      marked_lost_range_ += has_lost_range(input) ? 1 : 0;
    }
    inputs_ = std::move(unique_inputs);
  }

  [[nodiscard]] bool has_lost_range(const MergedInput& input) const {
    return !input.failed && outputs_[input.output]->rows().lost_range(input.number);
  }

  // Counts the rows of the result that lost range. Outputs of earlier versions count such rows in
  // the manifest without a mark in their index lines; all of these are added.
  [[nodiscard]] std::uint64_t lost_range() const {
    std::uint64_t counted = 0;
    for (const auto& output : outputs_) {
      counted += output->state().lost_range;
    }
    std::uint64_t marked = 0;
    for (const MergedInput& input : inputs_) {
      marked += has_lost_range(input) ? 1 : 0;
    }
    return marked + counted - std::min(counted, marked_lost_range_);
  }

  // Adds up the files that the jobs left out. Each shard of a job counts those of the whole job.
  [[nodiscard]] FileCounts left_out() const {
    FileCounts counts = outputs_.front()->state().left_out;
    for (std::size_t output = 1; output < outputs_.size() && !report_.in_input_order; ++output) {
      for (const auto& [kind, count] : outputs_[output]->state().left_out) {
        counts[kind] += count;
      }
    }
    return counts;
  }

  void write() {
    JobIdentity identity = outputs_.front()->identity();
    identity.shard_index = 0;
    identity.shard_count = 1;
    identity.missing = missing_;
    identity.shard_rows = options_.shard_rows > 0 ? options_.shard_rows : identity.shard_rows;
    pipeline::FolderOutput target(options_.output, identity, options_.overwrite,
                                  std::chrono::milliseconds(0), stop_);
    if (target.exists()) {
      return accept_finished(target);
    }
    NewOutput files(target, identity, stop_);
    pipeline::NameHash names;
    std::optional<ShardBuilder> file;
    std::uint64_t rows_done = 0;
    for (const MergedInput& input : inputs_) {
      const MergedOutput& output = *outputs_[input.output];
      const std::string name = result_name(input);
      names.add(name);
      if (input.failed) {
        add_failure(files, output.failures()[input.number], name);
        continue;
      }
      if (!file) {
        file.emplace(files.begin_file());
      }
      std::optional<PhotoLine> line;
      if (!has_common_folder_) {
        const pipeline::IndexLine old_line = output.rows().line(input.number);
        line = {.source = name, .file = old_line.file, .sha256 = old_line.sha256};
      }
      file->add(output.rows(), input.number, line ? &*line : nullptr);
      if (file->rows() == identity.shard_rows) {
        files.add(*file);
        file.reset();
      }
      report_progress(++rows_done);
    }
    if (file || files.files() == 0) {
      if (!file) {
        file.emplace(files.begin_file());
      }
      files.add(*file);
    }
    const pipeline::JobState& state = files.seal(names.value(), lost_range());
    report_.rows = state.rows;
    report_.failed = state.failed;
    files.put_in_place(left_out(), std::nullopt);
  }

  // Accepts an output that a killed merge had completed; opening it performed the last renames.
  void accept_finished(const pipeline::FolderOutput& target) {
    const pipeline::JobState& state = target.state();
    pipeline::NameHash names;
    std::uint64_t failed = 0;
    for (const MergedInput& input : inputs_) {
      names.add(result_name(input));
      failed += input.failed ? 1 : 0;
    }
    if (!state.finished || state.inputs != inputs_.size() || state.failed != failed ||
        state.names != names.value() || target.manifest().identity.missing != missing_) {
      fail("{}: the folder holds another output already; choose another folder or pass {}",
           io::escape(options_.output), option_words("overwrite"));
    }
    report_.rows = state.rows;
    report_.failed = state.failed;
    report_.already_done = true;
  }

  void add_failure(NewOutput& files, const Failure& failure, const std::string& name) const {
    if (name == failure.source) {
      files.add_errors(std::as_bytes(std::span(failure.line)));
      return;
    }
    const std::string line = pipeline::with_error_source(failure.line, name);
    files.add_errors(std::as_bytes(std::span(line)));
  }

  void report_progress(std::uint64_t done) const {
    constexpr std::uint64_t kRowsPerCall = 1024;
    if (options_.on_progress && (done % kRowsPerCall == 0 || done == inputs_.size())) {
      options_.on_progress(done, inputs_.size());
    }
  }

  const MergeOptions& options_;
  StopFlag stop_;
  Outputs outputs_;
  pipeline::MissingShards missing_;
  bool has_common_folder_ = true;
  std::vector<MergedInput> inputs_;
  std::uint64_t marked_lost_range_ = 0;  // rows of all outputs whose index line has "lost_range"
  MergeReport report_;
};

}  // namespace

MergeReport merge(const MergeOptions& options) {
  return Merge(options).run();
}

}  // namespace fovea::collection
