// FolderOutput: writes embeddings files that a later run can resume.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/journal.hpp"
#include "pipeline/output.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::pipeline {
namespace {

namespace fs = std::filesystem;

}  // namespace

FolderOutput::FolderOutput(const fs::path& folder, const JobIdentity& identity, bool overwrite,
                           std::chrono::milliseconds min_interval, StopFlag stop)
    : FolderOutput(io::Folder::make(folder), identity, overwrite, min_interval, stop) {}

FolderOutput::FolderOutput(std::shared_ptr<const io::Folder> folder, const JobIdentity& identity,
                           bool overwrite, std::chrono::milliseconds min_interval, StopFlag stop)
    : folder_(std::move(folder)),
      manifest_{.identity = identity, .state = {}},
      layout_(identity),
      min_interval_(min_interval),
      interval_(min_interval),
      lock_(folder_) {
  manifest_.state.names = NameHash().value();
  if (overwrite) {
    remove_all();
    return;
  }
  finish_replacement(folder_);
  const std::optional<Manifest> existing = read_existing_manifest();
  if (!existing ||
      (!existing->state.finished && existing->state.inputs == 0 && !existing->state.retrying)) {
    return;  // nothing to resume: there is no output, or its job has processed no input
  }
  const std::vector<std::string> mismatches = differences(existing->identity, identity);
  if (!mismatches.empty()) {
    fail("{}: holds the output of another job: {}; choose another output or pass {}",
         display_path(), fmt::join(mismatches, ", "), option_words("overwrite"));
  }
  manifest_.state = existing->state;
  manifest_.last_update = existing->last_update;
  manifest_.identity.model = existing->identity.model;
  manifest_.identity.working_folder = existing->identity.working_folder;
  manifest_.identity.missing = existing->identity.missing;
  if (existing->state.finished) {
    manifest_.version = existing->version;
  }
  exists_ = true;
  if (existing->version < kFirstSummedVersion && !existing->state.finished) {
    fail(
        "{}: was begun by an earlier version of Fovea, which kept no checksums, so it cannot be "
        "resumed; let that version finish it, choose another output or pass {}",
        display_path(), option_words("overwrite"));
  }
  try {
    if (existing->version < kFirstSummedVersion) {
      prove_unsummed(*folder_, *existing, stop);
    } else {
      proof_ = prove(*folder_, *existing, &lock_, stop);
    }
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail(
        "{}; cannot resume this output: `fovea check {} --repair` keeps what can be proven, "
        "{} starts again",
        error.what(), display_path(), option_words("overwrite"));
  }
  remove_leftovers(*folder_, manifest_.state.finished);
}

std::string FolderOutput::display_path(const std::string& name) const {
  return io::escape(name.empty() ? folder_->path().native() : (*folder_ / name).native());
}

std::optional<Manifest> FolderOutput::read_existing_manifest() const {
  if (folder_->has(kManifestFile)) {
    try {
      return parse_manifest(StoredFile(*folder_, kManifestFile).text(kMaxManifestBytes));
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}: {}; try `fovea check {} --repair`, choose another output or pass {}",
           display_path(kManifestFile), error.what(), display_path(), option_words("overwrite"));
    }
  }
  const std::vector<std::string> names = folder_->list();
  const auto other = std::ranges::find_if(names, [](const std::string& name) {
    return is_shard_file(name) || name == kErrorsFile || name == kJournalFile;
  });
  if (other != names.end()) {
    fail(
        "{}: holds {} but no manifest.json, so it cannot be resumed; try `fovea check {} "
        "--repair`, choose another output or pass {}",
        display_path(), io::escape(*other), display_path(), option_words("overwrite"));
  }
  return std::nullopt;
}

void FolderOutput::remove_all() {
  // The manifest is removed first: without it, the remaining files are never taken for a resumable
  // output if this process is killed.
  for (const std::string name : {kManifestFile, kErrorsFile, kRetryingFile, kJournalFile}) {
    folder_->remove(name);
    folder_->remove(partial_name(name));
  }
  for (const std::string& name : folder_->list()) {
    if (is_shard_file(name)) {
      folder_->remove(name);
    }
  }
  folder_->remove_folder(kUpdateFolder);
  lock_.clear();
}

void FolderOutput::write_manifest() const {
  io::write_file_atomically(folder_, kManifestFile, format_manifest(manifest_));
}

RetryNames FolderOutput::retry_names() const {
  const std::string name = folder_->has(kRetryingFile) ? kRetryingFile : kErrorsFile;
  RetryNames names;
  const StoredFile file(*folder_, name);
  file.each_line(file.size(), {}, [&](std::string_view line, std::uint64_t number) {
    try {
      ++names[parse_error_source(line)];
    } catch (const Error& error) {
      fail("{}: line {}: {}; nothing was changed", file.display_path(), number, error.what());
    }
  });
  return names;
}

void FolderOutput::begin_retry() {
  if (manifest_.version < kFirstSummedVersion) {
    fail(
        "{}: was finished by an earlier version of Fovea, which kept no checksums; let that "
        "version try the failed inputs again, or pass {}",
        display_path(), option_words("overwrite"));
  }
  manifest_.version = kManifestVersion;
  JobState& state = manifest_.state;
  state.finished = false;
  state.retrying = true;
  state.retries += 1;
  state.inputs = 0;
  state.names = NameHash().value();
  state.failed = 0;
  state.errors_bytes = 0;
  state.errors_sum = io::Digest().head();
  proof_.errors = io::Digest();
  write_manifest();
  folder_->rename(kErrorsFile, kRetryingFile);
}

void FolderOutput::begin() {
  const JobState& state = manifest_.state;
  if (state.retrying && !folder_->has(kRetryingFile)) {
    folder_->rename(kErrorsFile, kRetryingFile);  // a run was killed inside begin_retry()
  }
  for (const std::string& name : uncounted_files(*folder_, layout_, state)) {
    folder_->remove(name);
  }
  if (!exists_) {
    folder_->remove_folder(kUpdateFolder);  // left by a merge that was killed
  }
  // A run that was killed in finish() may have renamed this file already.
  if (state.errors_bytes == 0) {
    folder_->remove(kErrorsFile);
  }
  if (state.journal_bytes == 0) {
    folder_->remove(kJournalFile);
  }
  const JournalSummary& summary = proof_.summary;
  errors_ = std::make_unique<SummedFile>(folder_, kErrorsFile, state.errors_bytes,
                                         std::move(proof_.errors));
  journal_ = std::make_unique<SummedFile>(folder_, kJournalFile, state.journal_bytes,
                                          std::move(proof_.journal));
  if (state.journal_bytes == 0) {
    journal_->write(format_journal_line(manifest_.identity));
  }
  if (summary.retries() < state.retries) {
    journal_->write(format_journal_line(RetryRecord{.number = state.retries}));
  } else if (summary.state() != nullptr) {
    journaled_inputs_ = summary.state()->inputs;
    is_state_journaled_ = format_journal_line(*summary.state()) == format_journal_line(state);
  }
  if (state.open_rows > 0) {
    open_files();
  }
  write_manifest();
}

void FolderOutput::open_files() {
  const JobState& state = manifest_.state;
  ShardFile::KeptPart kept;
  if (state.open_rows > 0) {
    kept = {.data_bytes = state.open_bytes,
            .index_bytes = state.index_bytes,
            .data = std::move(proof_.data),
            .index = std::move(proof_.index)};
  }
  shard_ = std::make_unique<ShardFile>(folder_, layout_, state.shards, std::move(kept));
}

void FolderOutput::commit_files() {
  JobState& state = manifest_.state;
  const FileRecord record = shard_->commit(state.open_rows);
  folder_->sync();
  lock_.record(layout_, record);
  shard_.reset();
  journal_->write(format_journal_line(record));
  state.shards += 1;
  state.open_rows = 0;
  is_state_journaled_ = false;
}

std::string FolderOutput::json_rows(std::span<const Slot* const> slots,
                                    std::span<const std::byte> rows) const {
  fmt::memory_buffer text;
  std::uint64_t row = manifest_.state.open_rows;
  for (const Slot* slot : slots) {
    std::string line = format_index_line(make_index_line(row++, *slot));
    line.resize(line.size() - std::string_view("}\n").size());
    fmt::format_to(std::back_inserter(text), "{}, \"embedding\": [", line);
    for (std::int64_t column = 0; column < manifest_.identity.dimension; ++column) {
      float value = 0;
      if (layout_.dtype() == DType::kF32) {
        std::memcpy(&value, rows.data(), sizeof(value));
      } else {
        Float16 half;
        std::memcpy(&half, rows.data(), sizeof(half));
        value = to_float(half);
      }
      rows = rows.subspan(size_of(layout_.dtype()));
      // The default format is the shortest text that reads back as the same float32.
      fmt::format_to(std::back_inserter(text), "{}{}", column == 0 ? "" : ", ", value);
    }
    fmt::format_to(std::back_inserter(text), "]}}\n");
  }
  return fmt::to_string(text);
}

void FolderOutput::append_rows(std::span<const Slot* const> slots,
                               std::span<const std::byte> rows) {
  JobState& state = manifest_.state;
  if (!shard_) {
    open_files();
  }
  std::string lines;
  if (layout_.has_index()) {
    std::uint64_t row = state.open_rows;
    for (const Slot* slot : slots) {
      lines += format_index_line(make_index_line(row++, *slot));
    }
  } else {
    lines = json_rows(slots, rows);
  }
  shard_->append(rows, lines);
  state.open_rows += slots.size();
  state.rows += slots.size();
}

void FolderOutput::append(const Batch& batch, std::span<const std::byte> rows) {
  JobState& state = manifest_.state;
  std::vector<const Slot*> embedded;
  std::string errors;
  std::size_t failed = 0;
  for (const Slot& slot : std::span(batch.slots).first(batch.count)) {
    if (slot.failed()) {
      errors += format_error_line(slot.name, slot.error);
      ++failed;
    } else if (!slot.is_known) {
      embedded.push_back(&slot);
      state.lost_range += slot.lost_range ? 1 : 0;
    }
  }
  state.failed += failed;
  errors_->write(errors);
  bool has_committed = false;
  for (std::span<const Slot* const> rest = embedded; !rest.empty();) {
    const std::uint64_t free_rows = manifest_.identity.shard_rows - state.open_rows;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(free_rows, rest.size()));
    append_rows(rest.first(count), rows.first(count * layout_.row_bytes()));
    rest = rest.subspan(count);
    rows = rows.subspan(count * layout_.row_bytes());
    if (state.open_rows == manifest_.identity.shard_rows) {
      commit_files();
      has_committed = true;
    }
  }
  // A checkpoint may count the inputs of a batch only after the whole batch is written.
  state.inputs += embedded.size() + failed;
  state.names = batch.names;
  dirty_ = true;
  is_state_journaled_ = false;
  if (has_committed || state.inputs - journaled_inputs_ >= kStateInputs) {
    write_state();
  }
  if (has_committed) {
    checkpoint();
  } else {
    idle();
  }
}

// Records the sizes and checksums of the files that are being written in the state.
void FolderOutput::measure_files() {
  JobState& state = manifest_.state;
  const SummedFile* const index = shard_ ? shard_->index() : nullptr;
  state.open_bytes = shard_ ? shard_->data().size() : 0;
  state.data_sum = shard_ ? shard_->data().sum() : 0;
  state.index_bytes = index != nullptr ? index->size() : 0;
  state.index_sum = index != nullptr ? index->sum() : 0;
  state.errors_bytes = errors_->size();
  state.errors_sum = errors_->sum();
  state.journal_bytes = journal_->size();
  state.journal_sum = journal_->sum();
}

void FolderOutput::write_state() {
  measure_files();
  journal_->write(format_journal_line(manifest_.state));
  journaled_inputs_ = manifest_.state.inputs;
  is_state_journaled_ = true;
}

void FolderOutput::checkpoint() {
  // The interval grows on a slow disk, so that checkpoints take at most a tenth of the time.
  constexpr int kMinIntervalRatio = 10;
  const Clock::time_point start = Clock::now();
  measure_files();
  if (shard_) {
    shard_->sync();
  }
  errors_->sync();
  journal_->sync();
  write_manifest();
  lock_.flush();
  last_checkpoint_ = Clock::now();
  interval_ = std::max(min_interval_, kMinIntervalRatio * (last_checkpoint_ - start));
  dirty_ = false;
}

void FolderOutput::idle() {
  if (dirty_ && Clock::now() - last_checkpoint_ >= interval_) {
    checkpoint();
  }
}

void FolderOutput::set_left_out(const FileCounts& left_out) {
  if (manifest_.version < kFirstCountingVersion || manifest_.state.left_out == left_out) {
    return;
  }
  manifest_.state.left_out = left_out;
  if (manifest_.state.finished) {
    write_manifest();
  }
}

void FolderOutput::add_lost(std::string_view name, std::string_view error) {
  errors_->write(format_error_line(name, error));
  ++manifest_.state.failed;
  is_state_journaled_ = false;
}

void FolderOutput::finish() {
  JobState& state = manifest_.state;
  if (!shard_ && state.shards == 0) {
    open_files();  // an output without rows still has one file, with an empty array
  }
  if (shard_) {
    commit_files();
  }
  if (!is_state_journaled_) {
    write_state();
  }
  measure_files();
  errors_->commit();
  errors_.reset();
  journal_->commit();
  journal_.reset();
  folder_->sync();
  if (state.retrying) {
    state.inputs = state.all_inputs;
    state.names = state.all_names;
  } else {
    state.all_inputs = state.inputs;
    state.all_names = state.names;
  }
  const bool was_retry = std::exchange(state.retrying, false);
  state.finished = true;
  write_manifest();
  if (was_retry) {
    folder_->remove(kRetryingFile);
  }
  lock_.flush();
  check_in_place();
}

void FolderOutput::replace(Replacement& replacement, const Manifest& manifest,
                           const std::vector<FileRecord>& records) {
  replacement.commit(manifest);
  manifest_ = manifest;
  for (const FileRecord& record : records) {
    lock_.record(layout_, record);
  }
  lock_.flush();
  check_in_place();
}

void FolderOutput::check_in_place() const {
  if (!folder_->is_in_place()) {
    fail(
        "{}: the folder was moved or replaced while the job ran; the finished output is in the "
        "folder that had this name before",
        display_path());
  }
}

}  // namespace fovea::pipeline
