// Update: computes missing rows in a separate folder, and then replaces the changed files.
#include "collection/update.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::collection {
namespace {

constexpr const char* kRowsFolder = "rows";
constexpr std::chrono::milliseconds kCheckpointInterval{50};

}  // namespace

// Writes batches to the output of computed rows, and reports each input's outcome to the
// reconciler.
class Update::Staging final : public pipeline::Output {
 public:
  Staging(pipeline::FolderOutput& rows, Reconciler& reconciler)
      : rows_(rows), reconciler_(reconciler), next_row_(rows.state().rows) {}

  void append(const pipeline::Batch& batch, std::span<const std::byte> rows) override {
    rows_.append(batch, rows);
    for (const pipeline::Slot& slot : std::span(batch.slots).first(batch.count)) {
      reconciler_.settle(
          slot, slot.has_pixels() ? std::optional<std::size_t>(next_row_++) : std::nullopt);
    }
  }
  void checkpoint() override { rows_.checkpoint(); }
  void idle() override { rows_.idle(); }
  void finish() override { rows_.checkpoint(); }

 private:
  pipeline::FolderOutput& rows_;
  Reconciler& reconciler_;
  std::size_t next_row_;
};

Update::Update(pipeline::FolderOutput& output, const pipeline::JobIdentity& identity,
               UpdateOptions options)
    : output_(output),
      identity_(identity),
      options_(std::move(options)),
      base_(output.folder(), output.manifest(), options_.stop),
      rows_(open_staging(identity)),
      previous_rows_(rows_->folder(), rows_->manifest(), options_.stop),
      reconciler_(base_, previous_rows_, identity.working_folder, options_.checksum),
      errors_before_(rows_->state().errors_bytes) {
  rows_->begin();
  staging_ = std::make_unique<Staging>(*rows_, reconciler_);
}

Update::~Update() = default;

std::unique_ptr<pipeline::FolderOutput> Update::open_staging(
    const pipeline::JobIdentity& identity) {
  const auto folder =
      output_.folder()->make_folder(pipeline::kUpdateFolder)->make_folder(kRowsFolder);
  const auto open = [&](bool overwrite) {
    return std::make_unique<pipeline::FolderOutput>(folder, identity, overwrite,
                                                    kCheckpointInterval, options_.stop);
  };
  std::string problem;
  try {
    auto rows = open(false);
    const bool same_names = rows->manifest().identity.working_folder == identity.working_folder;
    if (same_names && !rows->state().finished && !rows->state().retrying) {
      return rows;
    }
    problem = "they belong to another run";
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    problem = error.what();
  }
  if (options_.on_note) {
    options_.on_note(
        fmt::format("the rows computed by an interrupted update are computed again: {}", problem));
  }
  return open(true);
}

void Update::select(pipeline::InputStream& inputs) {
  inputs.select_if([this](const pipeline::Item& item) { return reconciler_.take(item); });
}

pipeline::ContentCheck Update::contents() const {
  if (!options_.checksum && !base_.has_contents()) {
    return {};
  }
  return {.sum = true,
          .is_known = [this](const std::string& sum) { return reconciler_.is_known(sum); }};
}

pipeline::Output& Update::staging() {
  return *staging_;
}

bool Update::is_unchanged(const StoredPart& part) const {
  for (std::size_t row = part.first; row < part.first + part.count; ++row) {
    const std::uint32_t number = reconciler_.entry_of_row()[row];
    if (number == Entry::kNone) {
      return false;
    }
    const Entry& entry = reconciler_.entries()[number];
    if (entry.origin != Entry::Origin::kBase || entry.row != row || entry.change != Entry::kNone) {
      return false;
    }
  }
  return part.is_complete;
}

void Update::write_shards(const StoredRows& staged, NewOutput& files) {
  const std::vector<Entry>& entries = reconciler_.entries();
  const auto has_row = [](const Entry& entry) { return entry.origin != Entry::Origin::kFailed; };
  const auto row_entry = [&](std::size_t row) -> const Entry* {
    const std::uint32_t number = reconciler_.entry_of_row()[row];
    return number != Entry::kNone && has_row(entries[number]) ? &entries[number] : nullptr;
  };
  const auto remaining_rows = [&](const StoredPart& part) {
    std::uint64_t rows = 0;
    for (std::size_t row = part.first; row < part.first + part.count; ++row) {
      rows += row_entry(row) != nullptr ? 1 : 0;
    }
    return rows;
  };
  const auto add = [&](ShardBuilder& shard, const Entry& entry) {
    shard.add(entry.origin == Entry::Origin::kBase ? base_ : staged, entry.row,
              reconciler_.change(entry));
  };
  const auto is_new = [&](const Entry& entry) {
    return has_row(entry) && entry.base == Entry::kNone;
  };
  auto next_new = std::ranges::find_if(entries, is_new);
  const auto fill = [&](ShardBuilder& shard) {
    while (next_new != entries.end() && shard.rows() < identity_.shard_rows) {
      add(shard, *next_new);
      next_new = std::find_if(next_new + 1, entries.end(), is_new);
    }
  };
  std::span<const StoredPart> parts = base_.parts();
  while (parts.size() > 1 && remaining_rows(parts.back()) == 0) {
    parts = parts.first(parts.size() - 1);
  }
  for (const StoredPart& part : parts) {
    const bool is_extended = &part == &parts.back() && next_new != entries.end() &&
                             remaining_rows(part) < identity_.shard_rows;
    if (!is_extended && is_unchanged(part)) {
      files.keep(output_.files().at(files.files()));
      continue;
    }
    ShardBuilder shard = files.begin_file();
    for (std::size_t row = part.first; row < part.first + part.count; ++row) {
      if (const Entry* const entry = row_entry(row)) {
        add(shard, *entry);
      }
    }
    if (is_extended) {
      fill(shard);
    }
    files.add(shard);
  }
  // An output without rows still has one file, with an empty array.
  while (next_new != entries.end() || files.files() == 0) {
    ShardBuilder shard = files.begin_file();
    fill(shard);
    files.add(shard);
  }
}

void Update::write_errors(NewOutput& files) const {
  const io::Folder& rows = *rows_->folder();
  const pipeline::StoredFile errors(rows, io::PartialFile::left_as(rows, pipeline::kErrorsFile));
  errors.read(errors_before_, rows_->state().errors_bytes, options_.stop,
              [&](std::span<const std::byte> piece) { files.add_errors(piece); });
}

std::uint64_t Update::lost_range(const StoredRows& staged) const {
  std::uint64_t marked = 0;
  std::uint64_t kept = 0;
  for (const Entry& entry : reconciler_.entries()) {
    if (entry.origin != Entry::Origin::kFailed) {
      const bool is_base = entry.origin == Entry::Origin::kBase;
      kept += is_base ? 1 : 0;
      marked += (is_base ? base_ : staged).lost_range(entry.row) ? 1 : 0;
    }
  }
  // Earlier versions counted such rows in the manifest without a mark in their index lines. These
  // are assumed to be among the rows that are kept.
  std::uint64_t marked_before = 0;
  for (std::size_t row = 0; row < base_.size(); ++row) {
    marked_before += base_.lost_range(row) ? 1 : 0;
  }
  const std::uint64_t counted_before = output_.state().lost_range;
  return marked + std::min(counted_before - std::min(marked_before, counted_before), kept);
}

bool Update::is_output_unchanged(const NewOutput& files,
                                 const pipeline::JobState& new_state) const {
  const pipeline::Manifest& old_manifest = output_.manifest();
  const pipeline::JobState& old_state = old_manifest.state;
  return !files.has_new_files() && old_state.finished && old_state.shards == new_state.shards &&
         old_state.rows == new_state.rows && old_state.inputs == new_state.inputs &&
         old_state.names == new_state.names && old_state.errors_bytes == new_state.errors_bytes &&
         old_state.errors_sum == new_state.errors_sum &&
         old_state.lost_range == new_state.lost_range &&
         old_manifest.identity.missing.numbers.empty() &&
         old_manifest.identity.working_folder == identity_.working_folder;
}

UpdateCounts Update::finish(const std::vector<std::string>& empty_folders,
                            const FileCounts& left_out) {
  reconciler_.end(empty_folders);
  const UpdateCounts counts = reconciler_.counts();
  if (options_.max_drop && counts.dropped > *options_.max_drop) {
    fail("{}: the update would drop {} rows, more than {} {}; nothing was changed",
         io::escape(output_.folder()->path().native()), counts.dropped, option_words("max-drop"),
         *options_.max_drop);
  }
  const StoredRows staged(rows_->folder(), rows_->manifest(), options_.stop);
  pipeline::JobIdentity identity = identity_;
  if (const auto& old_identity = output_.manifest().identity;
      old_identity.working_folder == identity.working_folder) {
    identity.model = old_identity.model;
  }
  NewOutput files(output_, identity, options_.stop);
  write_shards(staged, files);
  write_errors(files);
  const pipeline::JobState& state = files.seal(reconciler_.names(), lost_range(staged));
  if (is_output_unchanged(files, state)) {
    output_.set_left_out(left_out);
    output_.folder()->remove_folder(pipeline::kUpdateFolder);
  } else {
    files.put_in_place(left_out, counts);
  }
  return counts;
}

}  // namespace fovea::collection
