// Reconciler: matches the inputs of an update with existing rows.
#include "collection/reconciler.hpp"

#include <algorithm>
#include <utility>

#include <sys/stat.h>

#include "core/error.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"

namespace fovea::collection {
namespace {

using Origin = Entry::Origin;

// Returns the current stamp of an input's file; nullopt without a file or when stat(2) fails.
std::optional<io::FileStamp> current_stamp(const pipeline::Item& item) {
  if (item.kind != pipeline::Item::Kind::kFile) {
    return item.file;
  }
  struct stat info{};
  if (::stat(item.name.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return io::file_stamp(info);
}

}  // namespace

Reconciler::Reconciler(const StoredRows& base, const StoredRows& staged, std::string working_folder,
                       bool checksum)
    : base_(base),
      staged_(staged),
      working_folder_(std::move(working_folder)),
      checksum_(checksum),
      entry_of_row_(base.size(), Entry::kNone) {}

std::uint32_t Reconciler::take_row(const Key& photo) {
  const auto rows = base_.rows_of_photo(photo);
  if (rows.empty()) {
    return Entry::kNone;
  }
  const std::size_t next =
      rows.size() == 1 ? (entry_of_row_[rows[0]] == Entry::kNone ? 0 : 1) : rows_taken_[rows[0]]++;
  if (next >= rows.size()) {
    return Entry::kNone;
  }
  entry_of_row_[rows[next]] = static_cast<std::uint32_t>(entries_.size());
  return rows[next];
}

std::optional<std::uint32_t> Reconciler::staged_row(
    const Key& photo, const std::optional<io::FileStamp>& file) const {
  for (const std::uint32_t row : staged_.rows_of_photo(photo)) {
    if (staged_[row].has_stamp_of(file)) {
      return row;
    }
  }
  return std::nullopt;
}

void Reconciler::set_change(Entry& entry, PhotoLine line) {
  entry.change = static_cast<std::uint32_t>(changes_.size());
  changes_.push_back(std::move(line));
}

bool Reconciler::take(const pipeline::Item& item) {
  const std::lock_guard lock(mutex_);
  names_.add(item.name);
  const Key photo = name_key(absolute_name(working_folder_, item.name));
  Entry entry{.base = take_row(photo)};
  const bool has_base = entry.base != Entry::kNone;
  const std::optional<io::FileStamp> file = current_stamp(item);
  if (item.loses_names && listing_error_.empty()) {
    listing_error_ = fmt::format("{}: {}", io::escape(item.name), item.error);
  }
  if (item.kind == pipeline::Item::Kind::kFailed) {
    entries_.push_back(entry);
    return true;
  }
  if (checksum_) {
    if (has_base && !item.sha256.empty() &&
        base_.has_content(entry.base, content_key(item.sha256))) {
      entry.row = entry.base;
      entry.origin = Origin::kBase;
    }
  } else if (has_base && base_[entry.base].has_stamp_of(file)) {
    entry.row = entry.base;
    entry.origin = Origin::kBase;
  } else if (has_base && file && !base_[entry.base].has_stamp()) {
    fail(
        "{}: cannot tell whether the file has changed, because the index, written by an earlier "
        "version of Fovea, lacks its size and date; {} embeds all such files again",
        io::escape(item.name), option_words("checksum"));
  } else if (const auto staged = staged_row(photo, file)) {
    entry.row = *staged;
    entry.origin = Origin::kStaged;
  }
  if (entry.origin == Origin::kBase) {
    ++unchanged_;
    // A file that is given by another path than before needs a new index line.
    if (base_[entry.row].name_hash != name_hash(item.name)) {
      const pipeline::IndexLine line = base_.line(entry.row);
      set_change(entry, {.source = item.name, .file = line.file, .sha256 = line.sha256});
    }
  }
  entries_.push_back(entry);
  return entry.origin == Origin::kPending;
}

bool Reconciler::is_known(const std::string& sha256) const {
  const Key content = content_key(sha256);
  return base_.row_with_content(content) || staged_.row_with_content(content);
}

void Reconciler::reuse_known_row(Entry& entry, const pipeline::Slot& slot) {
  const Key content = content_key(slot.sha256);
  const bool is_same = entry.base != Entry::kNone && base_.has_content(entry.base, content);
  if (const auto row =
          is_same ? std::optional<std::size_t>(entry.base) : base_.row_with_content(content)) {
    entry.row = static_cast<std::uint32_t>(*row);
    entry.origin = Origin::kBase;
  } else {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): is_known() found it
    entry.row = static_cast<std::uint32_t>(staged_.row_with_content(content).value());
    entry.origin = Origin::kStaged;
  }
  entry.copied = !is_same;
  unchanged_ += is_same ? 1 : 0;
  if (!is_same || !base_[entry.base].has_stamp_of(slot.file) ||
      base_[entry.base].name_hash != name_hash(slot.name)) {
    set_change(entry, {.source = slot.name, .file = slot.file, .sha256 = slot.sha256});
  }
}

void Reconciler::settle(const pipeline::Slot& slot, std::optional<std::size_t> staged_row) {
  const std::lock_guard lock(mutex_);
  while (entries_[settled_count_].origin != Origin::kPending) {
    ++settled_count_;
  }
  Entry& entry = entries_[settled_count_];
  if (slot.failed()) {
    entry.origin = Origin::kFailed;
    failed_names_.insert(absolute_name(working_folder_, slot.name));
  } else if (slot.is_known) {
    reuse_known_row(entry, slot);
  } else {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): set for every computed row
    entry.row = static_cast<std::uint32_t>(staged_row.value());
    entry.origin = Origin::kStaged;
  }
}

std::string Reconciler::absolute_source(std::size_t row) const {
  return absolute_name(base_.working_folder(), base_.line(row).source);
}

void Reconciler::end(const std::vector<std::string>& empty_folders) {
  std::set<std::string> empty_names;
  for (std::string folder : empty_folders) {
    folder = absolute_name(working_folder_, folder);
    folder.pop_back();  // the '/' at its end
    empty_names.insert(std::move(folder));
  }
  for (std::size_t row = 0; row < base_.size(); ++row) {
    if (entry_of_row_[row] != Entry::kNone) {
      continue;
    }
    if (!listing_error_.empty()) {
      fail(
          "{}; nothing was changed, because it is unknown which photos are gone: correct this "
          "input, or leave it out",
          listing_error_);
    }
    if (empty_names.empty() && failed_names_.empty()) {
      continue;
    }
    const std::string name = absolute_source(row);
    for (std::size_t end = name.find_first_of("/#", 1); end != std::string::npos;
         end = name.find_first_of("/#", end + 1)) {
      const std::string parent = name.substr(0, end);
      if (empty_names.contains(parent)) {
        fail(
            "{}: the folder has no images, but the output has rows of photos that were in it; "
            "perhaps its disk is not mounted. Nothing was changed. To drop these rows, leave the "
            "folder out of the inputs",
            io::escape(parent));
      }
      if (failed_names_.contains(parent)) {
        Entry entry{.base = static_cast<std::uint32_t>(row),
                    .row = static_cast<std::uint32_t>(row),
                    .origin = Origin::kBase};
        // Relative names refer to the new working folder from now on.
        if (base_.working_folder() != working_folder_) {
          const pipeline::IndexLine line = base_.line(row);
          set_change(entry, {.source = name, .file = line.file, .sha256 = line.sha256});
        }
        entry_of_row_[row] = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back(entry);
        break;
      }
    }
  }
}

UpdateCounts Reconciler::counts() const {
  UpdateCounts counts;
  for (const Entry& entry : entries_) {
    const bool has_base = entry.base != Entry::kNone;
    if (entry.origin == Origin::kFailed) {
      counts.dropped += has_base ? 1 : 0;
    } else if (entry.origin == Origin::kBase && entry.row == entry.base) {
      ++counts.unchanged;
    } else {
      ++(has_base ? counts.reembedded : counts.added);
      counts.not_computed += entry.copied ? 1 : 0;
    }
  }
  counts.dropped += static_cast<std::uint64_t>(std::ranges::count(entry_of_row_, Entry::kNone));
  return counts;
}

}  // namespace fovea::collection
