// Reconciler: matches the inputs of an update with rows.
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

// Returns the current stamp of an input's file; nothing without a file or when stat(2) fails.
std::optional<io::FileStamp> stamp_of(const pipeline::Item& item) {
  if (item.kind != pipeline::Item::Kind::kFile) {
    return item.file;
  }
  struct stat info{};
  if (::stat(item.name.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return io::stamp_of(info);
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
  const auto rows = base_.of_photo(photo);
  if (rows.empty()) {
    return Entry::kNone;
  }
  const std::size_t next =
      rows.size() == 1 ? (entry_of_row_[rows[0]] == Entry::kNone ? 0 : 1) : taken_[rows[0]]++;
  if (next >= rows.size()) {
    return Entry::kNone;
  }
  entry_of_row_[rows[next]] = static_cast<std::uint32_t>(entries_.size());
  return rows[next];
}

std::optional<std::uint32_t> Reconciler::staged_row(
    const Key& photo, const std::optional<io::FileStamp>& file) const {
  for (const std::uint32_t row : staged_.of_photo(photo)) {
    if (staged_[row].is_of(file)) {
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
  const Key photo = key_of(absolute_name(working_folder_, item.name));
  Entry entry{.base = take_row(photo)};
  const bool has_base = entry.base != Entry::kNone;
  const std::optional<io::FileStamp> file = stamp_of(item);
  if (item.loses_names && loses_names_.empty()) {
    loses_names_ = fmt::format("{}: {}", io::escape(item.name), item.error);
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
  } else if (has_base && base_[entry.base].is_of(file)) {
    entry.row = entry.base;
    entry.origin = Origin::kBase;
  } else if (has_base && file && !base_[entry.base].has_stamp()) {
    fail(
        "{}: the index does not say which size and date the file had, because an earlier version "
        "of Fovea wrote it, so it is unknown whether it has changed; {} embeds all such files anew",
        io::escape(item.name), option_words("checksum"));
  } else if (const auto staged = staged_row(photo, file)) {
    entry.row = *staged;
    entry.origin = Origin::kStaged;
  }
  if (entry.origin == Origin::kBase) {
    ++unchanged_;
    if (base_[entry.row].name != name_sum(item.name)) {  // the same file by another path
      const pipeline::IndexLine line = base_.line(entry.row);
      set_change(entry, {.source = item.name, .file = line.file, .sha256 = line.sha256});
    }
  }
  entries_.push_back(entry);
  return entry.origin == Origin::kPending;
}

bool Reconciler::is_known(const std::string& sha256) const {
  const Key content = content_key(sha256);
  return base_.of_content(content) || staged_.of_content(content);
}

void Reconciler::set_known(Entry& entry, const pipeline::Slot& slot) {
  const Key content = content_key(slot.sha256);
  const bool same = entry.base != Entry::kNone && base_.has_content(entry.base, content);
  if (const auto row = same ? std::optional<std::size_t>(entry.base) : base_.of_content(content)) {
    entry.row = static_cast<std::uint32_t>(*row);
    entry.origin = Origin::kBase;
  } else {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): is there
    entry.row = static_cast<std::uint32_t>(staged_.of_content(content).value());
    entry.origin = Origin::kStaged;
  }
  entry.copied = !same;
  unchanged_ += same ? 1 : 0;
  if (!same || !base_[entry.base].is_of(slot.file) ||
      base_[entry.base].name != name_sum(slot.name)) {
    set_change(entry, {.source = slot.name, .file = slot.file, .sha256 = slot.sha256});
  }
}

void Reconciler::settle(const pipeline::Slot& slot, std::optional<std::size_t> staged_row) {
  const std::lock_guard lock(mutex_);
  while (entries_[settled_].origin != Origin::kPending) {
    ++settled_;
  }
  Entry& entry = entries_[settled_];
  if (slot.failed()) {
    entry.origin = Origin::kFailed;
    failed_.insert(absolute_name(working_folder_, slot.name));
  } else if (slot.known) {
    set_known(entry, slot);
  } else {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): is there
    entry.row = static_cast<std::uint32_t>(staged_row.value());
    entry.origin = Origin::kStaged;
  }
}

std::string Reconciler::absolute_source(std::size_t row) const {
  return absolute_name(base_.working_folder(), base_.line(row).source);
}

void Reconciler::end(const std::vector<std::string>& empty_folders) {
  std::set<std::string> empty;
  for (std::string folder : empty_folders) {
    folder = absolute_name(working_folder_, folder);
    folder.pop_back();  // the '/'
    empty.insert(std::move(folder));
  }
  for (std::size_t row = 0; row < base_.size(); ++row) {
    if (entry_of_row_[row] != Entry::kNone) {
      continue;
    }
    if (!loses_names_.empty()) {
      fail(
          "{}; so it is unknown which photos are gone, and nothing was changed: mend it, or leave "
          "it out",
          loses_names_);
    }
    if (empty.empty() && failed_.empty()) {
      continue;
    }
    const std::string name = absolute_source(row);
    for (std::size_t end = name.find_first_of("/#", 1); end != std::string::npos;
         end = name.find_first_of("/#", end + 1)) {
      const std::string above = name.substr(0, end);
      if (empty.contains(above)) {
        fail(
            "{}: there are no images in it, but the output has rows of photos that were there, so "
            "it may be a disk that is not mounted; nothing was changed. To drop these rows, leave "
            "the folder out of the inputs",
            io::escape(above));
      }
      if (failed_.contains(above)) {
        Entry entry{.base = static_cast<std::uint32_t>(row),
                    .row = static_cast<std::uint32_t>(row),
                    .origin = Origin::kBase};
        if (base_.working_folder() !=
            working_folder_) {  // to which relative names refer from now on
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
