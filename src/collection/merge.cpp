// Reads outputs, decides the order of their inputs, and writes them as one.
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

// A failed input of an output.
struct Failure {
  std::string source;  // its name
  std::string line;    // of errors.jsonl
};

// A finished output that is verified, and locked against changes by jobs.
class MergedOutput {
 public:
  MergedOutput(const std::string& path, StopFlag stop)
      : shown_(io::escape(path)),
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

  [[nodiscard]] const std::string& shown() const { return shown_; }
  [[nodiscard]] const io::Folder& folder() const { return *folder_; }
  [[nodiscard]] const JobIdentity& identity() const { return manifest_.identity; }
  [[nodiscard]] const pipeline::JobState& state() const { return manifest_.state; }
  [[nodiscard]] const StoredRows& rows() const { return *rows_; }
  [[nodiscard]] const std::vector<Failure>& failures() const { return failures_; }
  [[nodiscard]] Key key_of_failure(const Failure& failure) const {
    return key_of(absolute_name(rows_->working_folder(), failure.source));
  }

  /// Returns for each input, in order, whether it failed; nothing when that is unknown.
  [[nodiscard]] std::optional<std::vector<bool>> order(StopFlag stop) const {
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
    // The inputs that a retry embedded are no longer listed as failed.
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
      fail("{}: {}", file.shown(), problem);
    }
    if (!manifest.state.finished || pipeline::interrupted_replacement(*folder_)) {
      fail("{}: its job is not finished; run its embed command again first", shown_);
    }
    if (manifest.version < pipeline::kFirstSummedVersion) {
      fail(
          "{}: was made by an earlier version of Fovea, which kept no checksums, so it cannot be "
          "merged; make it again",
          shown_);
    }
    return manifest;
  }

  std::string shown_;
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
  std::uint32_t number = 0;
  bool failed = false;
};

JobIdentity without_shard(JobIdentity identity) {
  identity.shard_index = 0;
  identity.shard_count = 1;
  identity.shard_rows = 1;
  return identity;
}

void demand_alike(const Outputs& outputs) {
  const MergedOutput& first = *outputs.front();
  for (const auto& output : outputs) {
    const std::vector<std::string> different =
        pipeline::differences(without_shard(first.identity()), without_shard(output->identity()));
    if (!different.empty()) {
      fail("{} and {} cannot be merged: {} (\"there\" is {})", first.shown(), output->shown(),
           fmt::format("{}", fmt::join(different, ", ")), first.shown());
    }
  }
}

// The photos of all outputs, to find duplicates between them.
class Owners {
 public:
  explicit Owners(const Outputs& outputs) {
    for (std::uint32_t number = 0; number < outputs.size(); ++number) {
      const MergedOutput& output = *outputs[number];
      for (std::size_t row = 0; row < output.rows().size(); ++row) {
        owners_.push_back({output.rows()[row].photo, number});
      }
      for (const Failure& failure : output.failures()) {
        owners_.push_back({output.key_of_failure(failure), number + kFailed});
      }
    }
    std::ranges::sort(owners_);
  }

  /// The output from which the photo is taken: the first that has a row, or where it failed first.
  [[nodiscard]] std::uint32_t find(const Key& photo) const {
    const auto found = std::ranges::lower_bound(owners_, std::pair(photo, std::uint32_t{0}));
    return found->second % kFailed;
  }

 private:
  static constexpr std::uint32_t kFailed = std::uint32_t{1} << 31U;  // failures sort after rows
  std::vector<std::pair<Key, std::uint32_t>> owners_;
};

class Merge {
 public:
  explicit Merge(const MergeOptions& options) : options_(options), stop_(options.stop) {
    if (options.outputs.empty()) {
      fail("no output of `fovea embed` was given to merge");
    }
    for (const std::string& path : options.outputs) {
      std::error_code ignored;
      if (fs::equivalent(path, options.output, ignored)) {
        fail("{}: is one of the outputs to merge; choose another folder for the result",
             io::escape(options.output));
      }
      for (const auto& other : outputs_) {
        if (fs::equivalent(path, other->folder().path(), ignored)) {
          fail("{}: the same output was given twice, as {} too", io::escape(path), other->shown());
        }
      }
      outputs_.push_back(std::make_unique<MergedOutput>(path, stop_));
    }
    demand_alike(outputs_);
    std::vector<GivenOutput> given;
    for (const auto& output : outputs_) {
      given.push_back({output->shown(), &output->identity()});
    }
    missing_ = find_missing(given, options_.partial);
    report_.missing =
        missing_shards_words(missing_.numbers, missing_.numbers.size(), missing_.count);
    one_working_folder_ = std::ranges::all_of(outputs_, [this](const auto& output) {
      return output->identity().working_folder == outputs_.front()->identity().working_folder;
    });
  }

  MergeReport run() {
    inputs_ = in_input_order();
    report_.in_input_order = !inputs_.empty();
    if (inputs_.empty()) {
      inputs_ = one_after_the_other();
    }
    drop_duplicates();
    write();
    return report_;
  }

 private:
  [[nodiscard]] std::vector<MergedInput> one_after_the_other() const {
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
  // one job, or when that is unknown.
  [[nodiscard]] std::vector<MergedInput> in_input_order() const {
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
        !are_dealt_out(shards, count)) {
      return {};
    }
    std::vector<std::vector<bool>> orders;
    for (const auto& output : outputs_) {
      auto order = output->order(stop_);
      if (!order) {
        return {};
      }
      orders.push_back(std::move(*order));
    }
    std::vector<MergedInput> inputs;
    std::vector<MergedInput> next(outputs_.size());  // `number`: of rows; `output`: of failures
    for (std::uint64_t turn = 0;; ++turn) {
      const std::size_t before = inputs.size();
      for (const auto& [index, output] : shards) {
        if (turn < orders[output].size()) {
          const bool failed = orders[output][turn];
          std::uint32_t& number = failed ? next[output].output : next[output].number;
          inputs.push_back({output, number++, failed});
        }
      }
      if (inputs.size() == before) {
        return inputs;
      }
    }
  }

  // Whether the numbers of inputs fit shards of the same inputs: when they do not divide evenly,
  // the first shards have one more.
  [[nodiscard]] bool are_dealt_out(
      const std::vector<std::pair<std::uint64_t, std::uint32_t>>& shards,
      std::uint64_t count) const {
    const auto inputs_of = [&](std::uint32_t output) {
      return outputs_[output]->state().all_inputs;
    };
    const std::uint64_t greatest = inputs_of(shards.front().second);
    const std::uint64_t least = inputs_of(shards.back().second);
    return count > 1 && greatest - least <= 1 &&
           std::ranges::is_sorted(shards, std::greater(),
                                  [&](const auto& shard) { return inputs_of(shard.second); });
  }

  [[nodiscard]] Key photo_of(const MergedInput& input) const {
    const MergedOutput& output = *outputs_[input.output];
    return input.failed ? output.key_of_failure(output.failures()[input.number])
                        : output.rows()[input.number].photo;
  }

  [[nodiscard]] std::string name_of(const MergedInput& input) const {
    const MergedOutput& output = *outputs_[input.output];
    std::string name = input.failed ? output.failures()[input.number].source
                                    : output.rows().line(input.number).source;
    return one_working_folder_ ? name : absolute_name(output.rows().working_folder(), name);
  }

  void drop_duplicates() {
    const Owners owners(outputs_);
    std::optional<MergedInput> first;
    const auto is_elsewhere = [&](const MergedInput& input) {
      const Key photo = photo_of(input);
      const bool elsewhere = owners.find(photo) != input.output;
      if (elsewhere && !first) {
        first = input;
      }
      return elsewhere;
    };
    std::vector<MergedInput> kept;
    std::ranges::copy_if(inputs_, std::back_inserter(kept),
                         [&](const MergedInput& input) { return !is_elsewhere(input); });
    report_.left_out = inputs_.size() - kept.size();
    if (first && !options_.keep_first) {
      fail(
          "{} photos are in several of the outputs, such as {} in {} and {}; {} takes each from "
          "the first output that has it",
          report_.left_out, io::escape(name_of(*first)),
          outputs_[owners.find(photo_of(*first))]->shown(), outputs_[first->output]->shown(),
          option_words("keep-first"));
    }
    for (const MergedInput& input : inputs_) {
      lost_range_ += is_lost(input) ? 1 : 0;
    }
    inputs_ = std::move(kept);
  }

  [[nodiscard]] bool is_lost(const MergedInput& input) const {
    return !input.failed && outputs_[input.output]->rows().lost_range(input.number);
  }

  [[nodiscard]] std::uint64_t lost_range() const {
    std::uint64_t counted = 0;
    for (const auto& output : outputs_) {
      counted += output->state().lost_range;
    }
    std::uint64_t now = 0;
    for (const MergedInput& input : inputs_) {
      now += is_lost(input) ? 1 : 0;
    }
    return now + counted - std::min(counted, lost_range_);  // earlier versions told only the number
  }

  [[nodiscard]] FileCounts left_out() const {
    FileCounts counts = outputs_.front()->state().left_out;
    for (std::size_t output = 1; output < outputs_.size() && !report_.in_input_order; ++output) {
      for (const auto& [kind, count] : outputs_[output]->state().left_out) {
        counts[kind] += count;
      }
    }
    return counts;  // each shard counts all inputs of its job
  }

  void write() {
    JobIdentity identity = outputs_.front()->identity();
    identity.shard_index = 0;
    identity.shard_count = 1;
    identity.missing = missing_;
    identity.shard_rows = options_.shard_rows > 0 ? options_.shard_rows : identity.shard_rows;
    pipeline::FolderOutput target(options_.output, identity, options_.overwrite,
                                  std::chrono::milliseconds(0), stop_);
    if (target.found()) {
      return take_as_done(target);
    }
    NewOutput files(target, identity, stop_);
    pipeline::NameHash names;
    std::optional<ShardBuilder> file;
    std::uint64_t done = 0;
    for (const MergedInput& input : inputs_) {
      const MergedOutput& output = *outputs_[input.output];
      const std::string name = name_of(input);
      names.add(name);
      if (input.failed) {
        add_failure(files, output.failures()[input.number], name);
        continue;
      }
      if (!file) {
        file.emplace(files.begin_file());
      }
      std::optional<PhotoLine> line;
      if (!one_working_folder_) {
        const pipeline::IndexLine old = output.rows().line(input.number);
        line = {.source = name, .file = old.file, .sha256 = old.sha256};
      }
      file->add(output.rows(), input.number, line ? &*line : nullptr);
      if (file->rows() == identity.shard_rows) {
        files.add(*file);
        file.reset();
      }
      tell(++done);
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

  // Accepts an output that a killed merge had completed: opening it finishes its last renames.
  void take_as_done(const pipeline::FolderOutput& target) {
    const pipeline::JobState& state = target.state();
    pipeline::NameHash names;
    std::uint64_t failed = 0;
    for (const MergedInput& input : inputs_) {
      names.add(name_of(input));
      failed += input.failed ? 1 : 0;
    }
    if (!state.finished || state.inputs != inputs_.size() || state.failed != failed ||
        state.names != names.value() || target.manifest().identity.missing != missing_) {
      fail("{}: holds another output already; choose another folder or pass {}",
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

  void tell(std::uint64_t done) const {
    constexpr std::uint64_t kRowsPerCall = 1024;
    if (options_.on_progress && (done % kRowsPerCall == 0 || done == inputs_.size())) {
      options_.on_progress(done, inputs_.size());
    }
  }

  const MergeOptions& options_;
  StopFlag stop_;
  Outputs outputs_;
  pipeline::MissingShards missing_;
  bool one_working_folder_ = true;
  std::vector<MergedInput> inputs_;
  std::uint64_t lost_range_ = 0;  // rows of all outputs of which the index says so
  MergeReport report_;
};

}  // namespace

MergeReport merge(const MergeOptions& options) {
  return Merge(options).run();
}

}  // namespace fovea::collection
