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
    kPending,  // the row is being computed
    kFailed,   // the input failed and has no row
    kBase,     // the row exists in the output
    kStaged,   // the row is among those that the update computed
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t base = kNone;    // the row that the photo has in the output so far
  std::uint32_t row = 0;         // the row to take, of the output or of the computed ones
  std::uint32_t change = kNone;  // index of Reconciler::change(); kNone: the index line stays
  Origin origin = Origin::kPending;
  bool copied = false;  // the row of another photo with the same contents is taken
};

/// Matches each input with the first unused row of its name. The row is kept when the file's size
/// and modification time equal those in the index; with `checksum`, when its contents are equal.
/// Other rows are computed, unless an interrupted update has already computed them.
///
/// take() is called by the thread that reads inputs and settle() by the one that writes rows, both
/// in input order.
class Reconciler {
 public:
  /// `staged`: rows that an interrupted update computed. `working_folder`: that of this run.
  Reconciler(const StoredRows& base, const StoredRows& staged, std::string working_folder,
             bool checksum);

  /// Returns whether the input must be read. Throws fovea::Error when the index lacks the stamp
  /// that decides this.
  [[nodiscard]] bool take(const pipeline::Item& item);
  /// Returns whether a row with these contents exists. Called from many threads.
  [[nodiscard]] bool is_known(const std::string& sha256) const;
  /// Records the outcome of the next input for which take() was true. `staged_row`: the index of
  /// its row among those computed by the update, if it was computed.
  void settle(const pipeline::Slot& slot, std::optional<std::size_t> staged_row);

  /// Returns how many inputs so far keep their rows.
  [[nodiscard]] std::uint64_t unchanged() const { return unchanged_; }

  /// Called after the last input: drops the rows without an input, except those below a failed
  /// input, which may be a folder or an archive that is temporarily unreadable. Throws fovea::Error
  /// when it is unknown whether the photos still exist: a list is cut short, or an input folder has
  /// no images. `empty_folders`: from LeftOut::empty_folders().
  void end(const std::vector<std::string>& empty_folders);

  // The results, complete after end():
  /// Returns the entries in input order, and then those of rows that stay without an input.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  /// Returns the entry of each row of the output; kNone for rows to be dropped.
  [[nodiscard]] const std::vector<std::uint32_t>& entry_of_row() const { return entry_of_row_; }
  [[nodiscard]] const PhotoLine* change(const Entry& entry) const {
    return entry.change == Entry::kNone ? nullptr : &changes_[entry.change];
  }
  [[nodiscard]] UpdateCounts counts() const;
  /// Returns the hash over the names of all inputs.
  [[nodiscard]] std::uint64_t names() const { return names_.value(); }

 private:
  [[nodiscard]] std::uint32_t take_row(const Key& photo);
  [[nodiscard]] std::optional<std::uint32_t> staged_row(
      const Key& photo, const std::optional<io::FileStamp>& file) const;
  void reuse_known_row(Entry& entry, const pipeline::Slot& slot);
  void set_change(Entry& entry, PhotoLine line);
  [[nodiscard]] std::string absolute_source(std::size_t row) const;

  const StoredRows& base_;
  const StoredRows& staged_;
  std::string working_folder_;
  bool checksum_;
  std::atomic<std::uint64_t> unchanged_ = 0;

  std::mutex mutex_;  // guards the members below
  pipeline::NameHash names_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> entry_of_row_;
  // Counts the rows taken of each photo that has several, by the first of its rows.
  std::unordered_map<std::uint32_t, std::size_t> rows_taken_;
  std::deque<PhotoLine> changes_;
  std::size_t settled_count_ = 0;       // entries before this one are not pending
  std::set<std::string> failed_names_;  // absolute names of failed inputs
  std::string listing_error_;           // the first input whose list is cut short, and the cause
};

}  // namespace fovea::collection
