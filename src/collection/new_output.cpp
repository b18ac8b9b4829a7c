// NewOutput: writes the new files into a Replacement.
#include "collection/new_output.hpp"

#include <algorithm>

#include "pipeline/journal.hpp"

namespace fovea::collection {

NewOutput::NewOutput(pipeline::FolderOutput& output, const pipeline::JobIdentity& identity,
                     StopFlag stop)
    : output_(output),
      stop_(stop),
      replacement_(output.folder()),
      layout_(identity),
      manifest_{.identity = identity, .state = {}},
      errors_(std::make_unique<pipeline::SummedFile>(replacement_.folder(), pipeline::kErrorsFile,
                                                     0, io::Digest())) {}

ShardBuilder NewOutput::begin_file() const {
  return {replacement_.folder(), layout_, files(), stop_};
}

void NewOutput::add(ShardBuilder& file) {
  records_.push_back(file.commit());
  has_new_files_ = true;
}

void NewOutput::add_errors(std::span<const std::byte> lines) {
  errors_->write(lines);
  manifest_.state.failed +=
      static_cast<std::uint64_t>(std::ranges::count(lines, static_cast<std::byte>('\n')));
}

const pipeline::JobState& NewOutput::seal(std::uint64_t names, std::uint64_t lost_range) {
  pipeline::JobState& state = manifest_.state;
  state.errors_bytes = errors_->size();
  state.errors_sum = errors_->sum();
  errors_->commit();
  errors_.reset();
  state.shards = files();
  for (const pipeline::FileRecord& record : records_) {
    state.rows += record.rows;
  }
  state.inputs = state.rows + state.failed;
  state.names = names;
  state.lost_range = lost_range;
  return state;
}

void NewOutput::put_in_place(const FileCounts& left_out,
                             const std::optional<UpdateCounts>& update) {
  pipeline::JobState& state = manifest_.state;
  pipeline::SummedFile journal(replacement_.folder(), pipeline::kJournalFile, 0, io::Digest());
  journal.write(pipeline::format_journal_line(manifest_.identity));
  for (const pipeline::FileRecord& record : records_) {
    journal.write(pipeline::format_journal_line(record));
  }
  journal.write(pipeline::format_journal_line(state));
  state.journal_bytes = journal.size();
  state.journal_sum = journal.sum();
  journal.commit();
  state.finished = true;
  state.all_inputs = state.inputs;
  state.all_names = state.names;
  state.left_out = left_out;
  manifest_.last_update = update;
  stop_.poll();
  output_.replace(replacement_, manifest_, records_);
}

}  // namespace fovea::collection
