// Files compared with their records.
#include "pipeline/output_proof.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/partial_file.hpp"
#include "io/text.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::pipeline {
namespace {

template <typename... Args>
void demand(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }
}

// The message of the Error that `body` throws, or "". Want of resources and stops are no findings.
template <typename Body>
std::string finding_of(const Body& body) {
  try {
    body();
  } catch (const Interrupted&) {
    throw;
  } catch (const ResourceError&) {
    throw;
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

struct Expected {
  std::uint64_t skipped = 0;  // bytes at the beginning that no sum covers
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  std::optional<std::uint64_t> lines = std::nullopt;
};

Sha256 prove_content(const StoredFile& file, const Expected& expected, bool to_its_end,
                     StopFlag stop) {
  demand(file.size() >= expected.bytes && (!to_its_end || file.size() == expected.bytes),
         "{}: holds {} bytes, where {} were written", file.shown(), file.size(), expected.bytes);
  demand(expected.bytes >= expected.skipped, "{}: ends inside its header", file.shown());
  StoredFile::Content content = file.look_at(expected.skipped, expected.bytes, stop);
  demand(!expected.lines || (content.lines == *expected.lines && content.whole),
         "{}: holds {} whole lines, where {} are counted", file.shown(), content.lines,
         expected.lines.value_or(0));
  demand(content.sum.head() == expected.sum,
         "{}: was altered: the checksum of its first {} bytes is another than when they were "
         "written",
         file.shown(), expected.bytes);
  return std::move(content.sum);
}

std::string left_as(const io::Folder& folder, const std::string& name, bool finished) {
  return finished ? name : io::PartialFile::left_as(folder, name);
}

Sha256 prove_journal(const io::Folder& folder, const JobState& state, JournalSummary& summary,
                     StopFlag stop) {
  const StoredFile file(folder, left_as(folder, kJournalFile, state.finished));
  Sha256 sum = prove_content(file, {.bytes = state.journal_bytes, .sum = state.journal_sum},
                             state.finished, stop);
  file.each_line(state.journal_bytes, stop, [&](std::string_view line, std::uint64_t number) {
    try {
      summary.add(parse_journal_line(line));
    } catch (const Error& error) {
      fail("{}: line {}: {}", file.shown(), number, error.what());
    }
  });
  return sum;
}

Sha256 prove_errors(const io::Folder& folder, const JobState& state, StopFlag stop) {
  if (state.errors_bytes == 0 && !state.finished) {
    return {};  // the file may not have come to be
  }
  const StoredFile file(folder, left_as(folder, kErrorsFile, state.finished));
  return prove_content(
      file, {.bytes = state.errors_bytes, .sum = state.errors_sum, .lines = state.failed},
      state.finished, stop);
}

// The list of inputs that are being tried again.
void prove_retried(const io::Folder& folder, const JobState& before, StopFlag stop) {
  const StoredFile file(folder, folder.has(kRetryingFile) ? kRetryingFile : kErrorsFile);
  (void)prove_content(
      file, {.bytes = before.errors_bytes, .sum = before.errors_sum, .lines = before.failed}, true,
      stop);
}

void prove_open_files(const io::Folder& folder, const OutputLayout& layout, const JobState& state,
                      Proof& proof, StopFlag stop) {
  const StoredFile data(folder, left_as(folder, layout.data_file(state.shards), false));
  demand(layout.is_length(state.open_bytes, state.open_rows),
         "{}: {} rows do not take {} bytes, as {} says", data.shown(), state.open_rows,
         state.open_bytes, kManifestFile);
  Expected expected{
      .skipped = layout.header_bytes(), .bytes = state.open_bytes, .sum = state.data_sum};
  if (!layout.has_index()) {
    expected.lines = state.open_rows;
  }
  proof.data = prove_content(data, expected, false, stop);
  if (layout.has_index()) {
    const StoredFile index(folder, left_as(folder, layout.index_file(state.shards), false));
    proof.index = prove_content(
        index, {.bytes = state.index_bytes, .sum = state.index_sum, .lines = state.open_rows},
        false, stop);
  }
}

void demand_finished(const JobState& state) {
  demand(!state.retrying && state.open_rows == 0 && state.open_bytes == 0 && state.index_bytes == 0,
         "the job is finished, but a file is still being written");
  demand(state.inputs == state.all_inputs && state.names == state.all_names &&
             state.rows + state.failed == state.inputs,
         "{} rows and {} failed inputs do not add up to {} inputs", state.rows, state.failed,
         state.all_inputs);
}

}  // namespace

void JournalSummary::add(const JournalLine& line) {
  if (const auto* const identity = std::get_if<JobIdentity>(&line)) {
    demand(!identity_ && files_.empty() && !state_, "tells of a second job");
    identity_ = *identity;
  } else if (const auto* const file = std::get_if<FileRecord>(&line)) {
    demand(file->number == files_.size(), "tells of file {}, where file {} is the next",
           file->number, files_.size());
    files_.push_back(*file);
    rows_ += file->rows;
  } else if (const auto* const retry = std::get_if<RetryRecord>(&line)) {
    demand(state_ && retry->number == retries_ + 1, "tells of retry {}, where {} is the next",
           retry->number, retries_ + 1);
    retries_ = retry->number;
    before_ = std::exchange(state_, std::nullopt);
    first_ = first_ ? first_ : before_;
    pass_rows_ = rows_;
  } else {
    state_ = std::get<JobState>(line);
    state_->retries = retries_;
    state_->retrying = retries_ > 0;
    state_->all_inputs = first_ ? first_->inputs : 0;
    state_->all_names = first_ ? first_->names : 0;
    demand(state_->shards == files_.size() && state_->rows == rows_ + state_->open_rows,
           "its counts contradict the lines before it");
  }
}

Proof prove(const io::Folder& folder, const Manifest& manifest, OutputLock& lock, StopFlag stop) {
  const JobState& state = manifest.state;
  const OutputLayout layout(manifest.identity);
  Proof proof;
  proof.journal = prove_journal(folder, state, proof.summary, stop);
  const std::string counts = problem_of_counts(manifest, proof.summary);
  demand(counts.empty(), "{}: {}", io::escape((folder / kManifestFile).native()), counts);
  for (const FileRecord& file : proof.summary.files()) {
    for (const std::string& problem : {problem_of_data(folder, layout, file, &lock, stop),
                                       problem_of_index(folder, layout, file, &lock, stop)}) {
      demand(problem.empty(), "{}", problem);
    }
  }
  if (state.open_rows > 0) {
    prove_open_files(folder, layout, state, proof, stop);
  }
  proof.errors = prove_errors(folder, state, stop);
  if (state.retrying) {
    const JournalSummary& summary = proof.summary;
    prove_retried(folder, summary.retries() == state.retries ? *summary.before() : *summary.state(),
                  stop);
  }
  if (state.finished) {
    const std::vector<std::string> more = uncounted_files(folder, layout, state);
    demand(more.empty(), "{}: holds {}, which {} does not count; remove it",
           io::escape(folder.path().native()), more.empty() ? "" : io::escape(more.front()),
           kManifestFile);
  }
  lock.flush();
  return proof;
}

void check_unsummed(const io::Folder& folder, const Manifest& manifest) {
  const JobState& state = manifest.state;
  const OutputLayout layout(manifest.identity);
  demand_finished(state);
  std::uint64_t rows = 0;
  for (std::uint64_t number = 0; number < state.shards; ++number) {
    const StoredFile data(folder, layout.data_file(number));
    std::uint64_t here = 0;
    if (layout.has_index()) {
      const StoredFile index(folder, layout.index_file(number));
      here = index.look_at(0, index.size(), {}).lines;
      demand(layout.is_length(data.size(), here),
             "{}: holds {} bytes, which are not those of the {} rows in its index", data.shown(),
             data.size(), here);
    } else {
      here = data.look_at(0, data.size(), {}).lines;
    }
    rows += here;
  }
  demand(rows == state.rows, "{}: its files hold {} rows, where {} counts {}",
         io::escape(folder.path().native()), rows, kManifestFile, state.rows);
  const StoredFile errors(folder, kErrorsFile);
  const std::uint64_t failed = errors.look_at(0, errors.size(), {}).lines;
  demand(failed == state.failed, "{}: holds {} lines, where {} counts {}", errors.shown(), failed,
         kManifestFile, state.failed);
}

std::string problem_of_data(const io::Folder& folder, const OutputLayout& layout,
                            const FileRecord& file, OutputLock* lock, StopFlag stop) {
  const std::string name = layout.data_file(file.number);
  if (lock != nullptr && lock->knows(name, file.data_sum)) {
    return {};
  }
  return finding_of([&] {
    const StoredFile data(folder, name);
    demand(layout.is_length(data.size(), file.rows),
           "{}: holds {} bytes, which are not its {} rows", data.shown(), data.size(), file.rows);
    Expected expected{.skipped = layout.header_bytes(), .bytes = data.size(), .sum = file.data_sum};
    if (layout.has_index()) {
      std::string header;
      data.read(0, layout.header_bytes(), stop, [&](std::span<const std::byte> piece) {
        header.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      });
      demand(header == layout.header(file.rows), "{}: its header is not that of {} rows",
             data.shown(), file.rows);
    } else {
      expected.lines = file.rows;
    }
    (void)prove_content(data, expected, true, stop);
    if (lock != nullptr) {
      lock->remember(name, file.data_sum, data.info());
    }
  });
}

std::string problem_of_index(const io::Folder& folder, const OutputLayout& layout,
                             const FileRecord& file, OutputLock* lock, StopFlag stop) {
  const std::string name = layout.index_file(file.number);
  if (!layout.has_index() || (lock != nullptr && lock->knows(name, file.index_sum))) {
    return {};
  }
  return finding_of([&] {
    const StoredFile index(folder, name);
    (void)prove_content(index, {.bytes = index.size(), .sum = file.index_sum, .lines = file.rows},
                        true, stop);
    if (lock != nullptr) {
      lock->remember(name, file.index_sum, index.info());
    }
  });
}

std::string problem_of_counts(const Manifest& manifest, const JournalSummary& summary) {
  const JobState& state = manifest.state;
  return finding_of([&] {
    demand(summary.identity() &&
               format_journal_line(*summary.identity()) == format_journal_line(manifest.identity),
           "tells of another job than {}", kJournalFile);
    demand(state.shards == summary.files().size(), "counts {} complete files, {} lists {}",
           state.shards, kJournalFile, summary.files().size());
    demand(state.rows == summary.rows() + state.open_rows &&
               state.open_rows < manifest.identity.shard_rows,
           "counts {} rows, {} of them in a file that is not complete; {} lists {}", state.rows,
           state.open_rows, kJournalFile, summary.rows());
    // Killed between the record of a retry and its first line.
    const bool begins = state.retrying && state.inputs == 0 && state.failed == 0 &&
                        state.retries == summary.retries() + 1 && summary.state() != nullptr;
    demand(begins || state.retries == summary.retries(), "counts {} retries, {} lists {}",
           state.retries, kJournalFile, summary.retries());
    demand(state.finished || state.retrying == (state.retries > 0),
           "does not say whether inputs are being tried again");
    const JobState* const first = summary.first() != nullptr ? summary.first() : summary.state();
    if (state.finished) {
      demand_finished(state);
      const JobState* const last = summary.state();
      demand(
          last != nullptr && last->failed == state.failed && last->errors_sum == state.errors_sum,
          "the job is finished, but {} does not tell how", kJournalFile);
    } else {
      const std::uint64_t before = begins ? summary.rows() : summary.pass_rows();
      demand(state.rows + state.failed == before + state.inputs,
             "{} new rows and {} failed inputs do not add up to {} inputs", state.rows - before,
             state.failed, state.inputs);
    }
    const bool has_first = state.finished || state.retrying;
    demand(!has_first || first != nullptr, "counts a pass that {} does not list", kJournalFile);
    demand(state.all_inputs == (has_first ? first->inputs : 0) &&
               state.all_names == (has_first ? first->names : 0),
           "counts {} inputs in all, {} lists {}", state.all_inputs, kJournalFile,
           has_first ? first->inputs : 0);
  });
}

std::vector<std::string> uncounted_files(const io::Folder& folder, const OutputLayout& layout,
                                         const JobState& state) {
  std::set<std::string> counted;
  for (std::uint64_t number = 0; number < state.shards; ++number) {
    counted.insert({layout.data_file(number), layout.index_file(number)});
  }
  if (state.open_rows > 0) {
    for (const std::string& name :
         {layout.data_file(state.shards), layout.index_file(state.shards)}) {
      counted.insert(left_as(folder, name, false));
    }
  }
  std::vector<std::string> more = folder.list();
  std::erase_if(more, [&](const std::string& name) {
    return !is_shard_file(name) || counted.contains(name);
  });
  return more;
}

}  // namespace fovea::pipeline
