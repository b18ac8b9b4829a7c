// FolderOutput: resumable shards of embeddings.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/npy.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/line_reader.hpp"
#include "pipeline/output.hpp"

namespace fovea::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifest = "manifest.json";
constexpr std::string_view kErrors = "errors.jsonl";
constexpr std::string_view kRetrying = "retrying.jsonl";  // errors.jsonl while it is worked on

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) {
    fail("{}: cannot remove: {}", io::escape(path.native()), error.message());
  }
}

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    fail("{}: cannot rename to {}: {}", io::escape(from.native()), io::escape(to.native()),
         error.message());
  }
}

fs::path partial(fs::path path) {
  path += ".partial";
  return path;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().native());
  }
  if (error) {
    fail("{}: cannot read the folder: {}", io::escape(folder.native()), error.message());
  }
  return names;
}

// Number of a file of embeddings or its index, finished or partial.
std::optional<std::uint64_t> shard_number(std::string_view name) {
  for (const std::string_view prefix : {"embeddings-", "index-"}) {
    std::uint64_t number = 0;
    if (!name.starts_with(prefix)) {
      continue;
    }
    const char* digits = name.data() + prefix.size();
    const auto [end, error] = std::from_chars(digits, name.data() + name.size(), number);
    const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
    if (error == std::errc{} && (rest == ".npy" || rest == ".jsonl" || rest == ".npy.partial" ||
                                 rest == ".jsonl.partial")) {
      return number;
    }
  }
  return std::nullopt;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

}  // namespace

FolderOutput::FolderOutput(fs::path folder, const JobIdentity& identity, bool overwrite,
                           std::chrono::milliseconds least_interval)
    : folder_(std::move(folder)),
      manifest_{.identity = identity, .state = {}},
      dtype_(identity.dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16),
      row_bytes_(static_cast<std::size_t>(identity.dimension) * size_of(dtype_)),
      least_interval_(least_interval),
      interval_(least_interval) {
  manifest_.state.names = NameHash().value();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error && !fs::is_directory(folder_)) {
    fail("{}: cannot make the output folder: {}", io::escape(folder_.native()), error.message());
  }
  lock_.emplace(folder_);
  if (overwrite) {
    remove_all();
    return;
  }
  const fs::path path = folder_ / kManifest;
  if (!fs::exists(path)) {
    const std::vector<std::string> names = names_in(folder_);
    const auto other = std::ranges::find_if(
        names, [](const std::string& name) { return shard_number(name).has_value(); });
    if (other != names.end()) {
      fail(
          "{}: holds {} but no manifest.json, so it cannot be gone on with; choose another output "
          "or --overwrite it",
          io::escape(folder_.native()), io::escape(*other));
    }
    return;
  }
  Manifest there;
  const std::string text = io::read_small_file(path);
  try {
    there = parse_manifest(text);
  } catch (const Error& cause) {
    fail("{}: {}; choose another output or --overwrite this one", io::escape(path.native()),
         cause.what());
  }
  if (!there.state.finished && there.state.inputs == 0 && !there.state.retrying) {
    return;  // begun, but nothing is lost by beginning as something else
  }
  const std::vector<std::string> different = differences(there.identity, identity);
  if (!different.empty()) {
    fail("{}: holds the output of another job: {}; choose another output or --overwrite this one",
         io::escape(folder_.native()), join(different));
  }
  manifest_.state = there.state;
  manifest_.identity.model = there.identity.model;
  found_ = true;
  for (std::uint64_t number = 0; number < there.state.shards; ++number) {
    check_counted(data_path(number));
    if (manifest_.identity.format == OutputFormat::kNpy) {
      check_counted(index_path(number));
    }
  }
}

void FolderOutput::check_counted(const fs::path& path) const {
  if (!fs::is_regular_file(path)) {
    fail("{}: is missing, but {} counts it; bring it back or --overwrite this output",
         io::escape(path.native()), kManifest);
  }
}

fs::path FolderOutput::data_path(std::uint64_t number) const {
  return folder_ / fmt::format("embeddings-{:05}.{}", number, to_string(manifest_.identity.format));
}

fs::path FolderOutput::index_path(std::uint64_t number) const {
  return folder_ / fmt::format("index-{:05}.jsonl", number);
}

std::string FolderOutput::header(std::uint64_t rows) const {
  return io::npy_header(dtype_, {static_cast<std::int64_t>(rows), manifest_.identity.dimension});
}

void FolderOutput::remove_all() const {
  // The manifest goes first: without it, what is left is never taken for a resumable output.
  for (const std::string_view name : {kManifest, kErrors, kRetrying}) {
    remove_file(folder_ / name);
    remove_file(partial(folder_ / name));
  }
  remove_files_from(0);
}

void FolderOutput::remove_files_from(std::uint64_t first) const {
  for (const std::string& name : names_in(folder_)) {
    const auto number = shard_number(name);
    if (number && *number >= first) {
      remove_file(folder_ / name);
    }
  }
}

void FolderOutput::write_manifest() const {
  io::write_file_atomically(folder_ / kManifest, format_manifest(manifest_));
}

void FolderOutput::begin_retry() {
  JobState& state = manifest_.state;
  remove_file(folder_ / kRetrying);  // of an earlier retry that was killed when it was done
  state.finished = false;
  state.retrying = true;
  state.inputs = 0;
  state.names = NameHash().value();
  state.failed = 0;
  state.errors_bytes = 0;
  write_manifest();
  rename_file(folder_ / kErrors, folder_ / kRetrying);
}

RetryNames FolderOutput::retry_names() const {
  const fs::path retrying = folder_ / kRetrying;
  const fs::path path = fs::exists(retrying) ? retrying : folder_ / kErrors;
  RetryNames names;
  LineReader lines(path.native(), '\n');
  std::string line;
  while (lines.next(line)) {
    ++names[parse_error_source(line)];
  }
  return names;
}

void FolderOutput::begin() {
  const JobState& state = manifest_.state;
  if (state.retrying && !fs::exists(folder_ / kRetrying)) {
    rename_file(folder_ / kErrors, folder_ / kRetrying);  // killed inside begin_retry()
  }
  remove_files_from(state.open_rows == 0 ? state.shards : state.shards + 1);
  if (state.errors_bytes == 0) {
    remove_file(folder_ / kErrors);  // put in place by a finish() that did not come to its end
  }
  try {
    errors_ = std::make_unique<io::PartialFile>(folder_ / kErrors, state.errors_bytes);
    if (state.open_rows > 0) {
      open_files();
    }
  } catch (const Error& error) {
    fail("{}; this output cannot be gone on with, --overwrite it", error.what());
  }
  write_manifest();
}

void FolderOutput::open_files() {
  const JobState& state = manifest_.state;
  const bool npy = manifest_.identity.format == OutputFormat::kNpy;
  const bool resumed = state.open_rows > 0;
  data_ =
      std::make_unique<io::PartialFile>(data_path(state.shards), resumed ? state.open_bytes : 0);
  if (npy) {
    index_ = std::make_unique<io::PartialFile>(index_path(state.shards),
                                               resumed ? state.index_bytes : 0);
    if (!resumed) {
      data_->write(header(0));
    }
  }
}

void FolderOutput::commit_files() {
  JobState& state = manifest_.state;
  if (index_) {
    const std::string final_header = header(state.open_rows);
    data_->write_at(0, std::as_bytes(std::span(final_header)));
    index_->commit();
  }
  data_->commit();
  data_.reset();
  index_.reset();
  io::sync_directory(folder_);
  state.shards += 1;
  state.open_rows = 0;
}

std::string FolderOutput::json_rows(std::span<const Slot* const> slots,
                                    std::span<const std::byte> rows) const {
  fmt::memory_buffer text;
  std::uint64_t row = manifest_.state.open_rows;
  for (const Slot* slot : slots) {
    std::string line = format_index_line({row++, slot->name, slot->width, slot->height});
    line.resize(line.size() - std::string_view("}\n").size());
    fmt::format_to(std::back_inserter(text), "{}, \"embedding\": [", line);
    for (std::int64_t column = 0; column < manifest_.identity.dimension; ++column) {
      float value = 0;
      if (dtype_ == DType::kF32) {
        std::memcpy(&value, rows.data(), sizeof(value));
      } else {
        Float16 half;
        std::memcpy(&half, rows.data(), sizeof(half));
        value = to_float(half);
      }
      rows = rows.subspan(size_of(dtype_));
      // The shortest text that reads back as the same float32.
      fmt::format_to(std::back_inserter(text), "{}{}", column == 0 ? "" : ", ", value);
    }
    fmt::format_to(std::back_inserter(text), "]}}\n");
  }
  return fmt::to_string(text);
}

void FolderOutput::append_rows(std::span<const Slot* const> slots,
                               std::span<const std::byte> rows) {
  JobState& state = manifest_.state;
  if (!data_) {
    open_files();
  }
  if (index_) {
    std::string index;
    std::uint64_t row = state.open_rows;
    for (const Slot* slot : slots) {
      index += format_index_line({row++, slot->name, slot->width, slot->height});
    }
    data_->write(rows);
    index_->write(index);
  } else {
    data_->write(json_rows(slots, rows));
  }
  state.open_rows += slots.size();
  state.rows += slots.size();
}

void FolderOutput::append(const Batch& batch, std::span<const std::byte> rows) {
  JobState& state = manifest_.state;
  std::vector<const Slot*> good;
  std::string errors;
  for (const Slot& slot : std::span(batch.slots).first(batch.count)) {
    if (slot.failed()) {
      errors += format_error_line(slot.name, slot.error);
      ++state.failed;
    } else {
      good.push_back(&slot);
    }
  }
  errors_->write(errors);
  bool committed = false;
  for (std::span<const Slot* const> rest = good; !rest.empty();) {
    const std::uint64_t room = manifest_.identity.shard_rows - state.open_rows;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(room, rest.size()));
    append_rows(rest.first(count), rows.first(count * row_bytes_));
    rest = rest.subspan(count);
    rows = rows.subspan(count * row_bytes_);
    if (state.open_rows == manifest_.identity.shard_rows) {
      commit_files();
      committed = true;
    }
  }
  // Only now, with the whole batch written, may a checkpoint count its inputs.
  state.inputs += batch.count;
  state.names = batch.names;
  dirty_ = true;
  if (committed) {
    checkpoint();
  } else {
    idle();
  }
}

void FolderOutput::checkpoint() {
  // What a crash can cost, against what the syncs cost: they take a tenth of this thread's time at
  // most, on a disk of any speed.
  constexpr int kIntervalsPerCost = 10;
  const Clock::time_point start = Clock::now();
  JobState& state = manifest_.state;
  state.open_bytes = 0;
  state.index_bytes = 0;
  if (data_) {
    data_->sync();
    state.open_bytes = data_->size();
    if (index_) {
      index_->sync();
      state.index_bytes = index_->size();
    }
  }
  errors_->sync();
  state.errors_bytes = errors_->size();
  write_manifest();
  last_checkpoint_ = Clock::now();
  interval_ = std::max(least_interval_, kIntervalsPerCost * (last_checkpoint_ - start));
  dirty_ = false;
}

void FolderOutput::idle() {
  if (dirty_ && Clock::now() - last_checkpoint_ >= interval_) {
    checkpoint();
  }
}

void FolderOutput::add_lost(std::string_view name, std::string_view error) {
  errors_->write(format_error_line(name, error));
  ++manifest_.state.failed;
}

void FolderOutput::finish() {
  JobState& state = manifest_.state;
  if (!data_ && state.shards == 0) {
    open_files();  // no row at all: an empty array says so
  }
  if (data_) {
    commit_files();
  }
  errors_->commit();
  errors_.reset();
  io::sync_directory(folder_);
  if (state.retrying) {
    state.inputs = state.all_inputs;
    state.names = state.all_names;
  } else {
    state.all_inputs = state.inputs;
    state.all_names = state.names;
  }
  const bool retried = std::exchange(state.retrying, false);
  state.finished = true;
  state.open_bytes = 0;
  state.index_bytes = 0;
  state.errors_bytes = 0;
  write_manifest();
  if (retried) {
    remove_file(folder_ / kRetrying);
  }
}

}  // namespace fovea::pipeline
