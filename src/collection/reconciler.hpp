// Reconciler: compares the inputs of an update with the existing rows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "collection/shard_builder.hpp"
#include "collection/stored_rows.hpp"
#include "fovea/job.hpp"
#include "pipeline/batch.hpp"
#include "pipeline/fingerprint.hpp"
#include "pipeline/source.hpp"

namespace fovea::collection {

/// An input of an update, and the origin of its row.
struct Entry {
  enum class Origin : std::uint8_t {
    kPending,  // it is being computed
    kFailed,   // it has no row
    kBase,     // from row `row` of the output
    kStaged,   // from row `row` of those that the update computed
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t base = kNone;  // the row that the photo had
  std::uint32_t row = 0;
  std::uint32_t change = kNone;  // Reconciler::change(); kNone: the line stays
  Origin origin = Origin::kPending;
  bool copied = false;  // it was not computed, because there is a row of the same contents
};

/// Matches each input with the first unused row of its name. The row is kept when the file's size
/// and modification time equal those in the index; with `checksum`, when its contents are equal.
/// Other rows are computed, unless an interrupted update has computed them before.
///
/// take() is called by the thread that reads inputs and settle() by the one that writes rows, both
/// in input order.
class Reconciler {
 public:
  /// `staged`: rows that an interrupted update computed. `working_folder`: of this run.
  Reconciler(const StoredRows& base, const StoredRows& staged, std::string working_folder,
             bool checksum);

  /// Whether the input must be read. Throws fovea::Error when the index does not say enough.
  [[nodiscard]] bool take(const pipeline::Item& item);
  /// Whether there is a row of these contents. Called from many threads.
  [[nodiscard]] bool is_known(const std::string& sha256) const;
  /// Records the outcome of the next input for which take() was true. `staged_row`: the index of
  /// its row among those computed by the update, if it was computed.
  void settle(const pipeline::Slot& slot, std::optional<std::size_t> staged_row);

  /// Returns the number of inputs so far that keep their rows.
  [[nodiscard]] std::uint64_t unchanged() const { return unchanged_; }

  /// Called after the last input: drops the rows without an input, except those below a failed
  /// input, which may be a folder or an archive that is temporarily unreadable. Throws fovea::Error
  /// when it is unknown whether the photos still exist: a list was cut short, or an input folder
  /// has no images. `empty_folders`: LeftOut::empty_folders().
  void end(const std::vector<std::string>& empty_folders);

  // After end():
  /// In input order, and then the rows that stay without an input.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// The entry of each row of the output; kNone for those to be dropped.
  [[nodiscard]] const std::vector<std::uint32_t>& entry_of_row() const { return entry_of_row_; }
  [[nodiscard]] const PhotoLine* change(const Entry& entry) const {
    return entry.change == Entry::kNone ? nullptr : &changes_[entry.change];
  }
  [[nodiscard]] UpdateCounts counts() const;
  /// Hash over the names of all inputs.
  [[nodiscard]] std::uint64_t names() const { return names_.value(); }

 private:
  [[nodiscard]] std::uint32_t take_row(const Key& photo);
  [[nodiscard]] std::optional<std::uint32_t> staged_row(
      const Key& photo, const std::optional<io::FileStamp>& file) const;
  void set_known(Entry& entry, const pipeline::Slot& slot);
  void set_change(Entry& entry, PhotoLine line);
  [[nodiscard]] std::string absolute_source(std::size_t row) const;

  const StoredRows& base_;
  const StoredRows& staged_;
  std::string working_folder_;
  bool checksum_;
  std::atomic<std::uint64_t> unchanged_ = 0;

  std::mutex mutex_;  // for all below
  pipeline::NameHash names_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> entry_of_row_;
  std::unordered_map<std::uint32_t, std::size_t>
      taken_;  // of a name with several rows, by the first
  std::deque<PhotoLine> changes_;
  std::size_t settled_ = 0;       // entries before this one are not pending
  std::set<std::string> failed_;  // absolute names
  std::string loses_names_;       // the first input that breaks off, and why
};

}  // namespace fovea::collection
