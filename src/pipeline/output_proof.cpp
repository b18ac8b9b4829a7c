// Compares files with their records.
#include "pipeline/output_proof.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/partial_file.hpp"
#include "io/text.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/stored_file.hpp"

namespace fovea::pipeline {
namespace {

template <typename... Args>
void demand(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }
}

struct Expected {
  std::uint64_t skipped = 0;  // bytes at the beginning that the sum does not cover
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  std::optional<std::uint64_t> lines = std::nullopt;
};

// The first bad line of a file of lines that was altered: " (line 3: not a JSON object)" or
// nothing.
std::string first_bad_line(const StoredFile& file, std::uint64_t bytes, StopFlag stop) {
  std::string found;
  file.each_line(bytes, stop, [&](std::string_view line, std::uint64_t number) {
    if (found.empty()) {
      const std::string reason = finding_of([&] { (void)parse_error_source(line); });
      found = reason.empty() ? "" : fmt::format(" (line {}: {})", number, reason);
    }
  });
  return found;
}

io::Digest prove_content(const StoredFile& file, const Expected& expected, bool to_its_end,
                         StopFlag stop) {
  demand(file.size() >= expected.bytes && (!to_its_end || file.size() == expected.bytes),
         "{}: holds {} bytes, but {} were written", file.shown(), file.size(), expected.bytes);
  demand(expected.bytes >= expected.skipped, "{}: ends inside its header", file.shown());
  StoredFile::Content content = file.look_at(expected.skipped, expected.bytes, stop);
  if (content.sum.head() != expected.sum) {
    fail("{}: was altered: its first {} bytes have another checksum than when they were written{}",
         file.shown(), expected.bytes,
         expected.lines ? first_bad_line(file, expected.bytes, stop) : "");
  }
  demand(!expected.lines || (content.lines == *expected.lines && content.whole),
         "{}: holds {} whole lines, but {} are recorded", file.shown(), content.lines,
         expected.lines.value_or(0));
  return std::move(content.sum);
}

std::string left_as(const io::Folder& folder, const std::string& name, bool finished) {
  return finished ? name : io::PartialFile::left_as(folder, name);
}

io::Digest prove_journal(const io::Folder& folder, const JobState& state, JournalSummary& summary,
                         StopFlag stop) {
  const StoredFile file(folder, left_as(folder, kJournalFile, state.finished));
  const std::uint64_t bytes = std::min(state.journal_bytes, file.size());
  // Parses only the last of consecutive states; the checksum over all lines covers the
  // others.
  std::string waiting;
  std::uint64_t waiting_number = 0;
  const auto add = [&](std::string_view line, std::uint64_t number) {
    try {
      summary.add(parse_journal_line(line));
    } catch (const Error& error) {
      fail("{}: line {}: {}", file.shown(), number, error.what());
    }
  };
  const auto add_waiting = [&] {
    if (!waiting.empty()) {
      add(waiting, waiting_number);
      waiting.clear();
    }
  };
  file.each_line(bytes, stop, [&](std::string_view line, std::uint64_t number) {
    if (is_state_line(line)) {
      waiting = line;
      waiting_number = number;
    } else {
      add_waiting();
      add(line, number);
    }
  });
  add_waiting();
  return prove_content(file, {.bytes = state.journal_bytes, .sum = state.journal_sum},
                       state.finished, stop);
}

io::Digest prove_errors(const io::Folder& folder, const JobState& state, StopFlag stop) {
  if (state.errors_bytes == 0 && !state.finished) {
    return io::Digest();  // the file may not exist yet
  }
  const StoredFile file(folder, left_as(folder, kErrorsFile, state.finished));
  return prove_content(
      file, {.bytes = state.errors_bytes, .sum = state.errors_sum, .lines = state.failed},
      state.finished, stop);
}

void prove_open_files(const io::Folder& folder, const OutputLayout& layout, const JobState& state,
                      Proof& proof, StopFlag stop) {
  const StoredFile data(folder, left_as(folder, layout.data_file(state.shards), false));
  demand(layout.is_length(state.open_bytes, state.open_rows),
         "{}: {} rows cannot take {} bytes, as {} says", data.shown(), state.open_rows,
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
    demand(!identity_ && files_.empty() && !state_, "describes a second job");
    identity_ = *identity;
  } else if (const auto* const file = std::get_if<FileRecord>(&line)) {
    demand(file->number == files_.size(), "describes file {}, but file {} is the next",
           file->number, files_.size());
    files_.push_back(*file);
    rows_ += file->rows;
  } else if (const auto* const retry = std::get_if<RetryRecord>(&line)) {
    demand(state_ && retry->number == retries_ + 1, "describes retry {}, but {} is the next",
           retry->number, retries_ + 1);
    retries_ = retry->number;
    before_ = std::exchange(state_, std::nullopt);
    first_ = first_ ? first_ : before_;
    pass_rows_ = rows_;
  } else {
    JobState state = std::get<JobState>(line);
    demand(state.shards == files_.size() && state.rows == rows_ + state.open_rows,
           "contradicts the lines before it");
    state.retries = retries_;
    state.retrying = retries_ > 0;
    state.all_inputs = first_ ? first_->inputs : 0;
    state.all_names = first_ ? first_->names : 0;
    state_ = state;
  }
}

void prove_counts(const Manifest& manifest, const JournalSummary& summary) {
  const JobState& state = manifest.state;
  demand(summary.identity() != nullptr &&
             format_journal_line(*summary.identity()) == format_journal_line(manifest.identity),
         "describes another job than {}", kJournalFile);
  demand(state.shards == summary.files().size(), "counts {} complete files, but {} lists {}",
         state.shards, kJournalFile, summary.files().size());
  demand(state.rows == summary.rows() + state.open_rows &&
             state.open_rows < manifest.identity.shard_rows,
         "counts {} rows, {} of them in a file that is not complete, but {} lists {}", state.rows,
         state.open_rows, kJournalFile, summary.rows());
  // A file that does not exist has no length and no sum; others are compared with the file.
  const bool no_index = state.index_bytes == 0 && state.index_sum == 0;
  demand(state.open_rows > 0
             ? state.open_bytes > 0 && no_index != OutputLayout(manifest.identity).has_index()
             : state.open_bytes == 0 && state.data_sum == 0 && no_index,
         "describes a file with {} rows and {} bytes", state.open_rows, state.open_bytes);
  demand((state.failed > 0) == (state.errors_bytes > 0) &&
             (state.failed > 0 || state.errors_sum == io::Digest().head()),
         "describes {} failed inputs in {} bytes", state.failed, state.errors_bytes);
  // The job was killed between the record of a retry and its first line.
  const bool begins = state.retrying && state.inputs == 0 && state.failed == 0 &&
                      state.retries == summary.retries() + 1 && summary.state() != nullptr;
  demand(begins || state.retries == summary.retries(), "counts {} retries, but {} lists {}",
         state.retries, kJournalFile, summary.retries());
  demand(state.finished || state.retrying == (state.retries > 0),
         "does not say whether inputs are being tried again");
  const JobState* const first = summary.first() != nullptr ? summary.first() : summary.state();
  if (state.finished) {
    demand_finished(state);
    const JobState* const last = summary.state();
    demand(last != nullptr && last->failed == state.failed && last->errors_sum == state.errors_sum,
           "the job is finished, but {} does not record its end", kJournalFile);
  } else {
    const std::uint64_t before = begins ? summary.rows() : summary.pass_rows();
    demand(state.rows + state.failed == before + state.inputs,
           "{} new rows and {} failed inputs do not add up to {} inputs", state.rows - before,
           state.failed, state.inputs);
  }
  const bool has_first = state.finished || state.retrying;
  demand(!has_first || first != nullptr, "counts a pass, but {} does not list it", kJournalFile);
  demand(state.all_inputs == (has_first ? first->inputs : 0) &&
             state.all_names == (has_first ? first->names : 0),
         "counts {} inputs in total, but {} lists {}", state.all_inputs, kJournalFile,
         has_first ? first->inputs : 0);
}

Proof prove(const io::Folder& folder, const Manifest& manifest, OutputLock* lock, StopFlag stop,
            std::vector<std::string>* problems) {
  const JobState& state = manifest.state;
  const OutputLayout layout(manifest.identity);
  const auto attempt = [&](const auto& step) {
    if (problems == nullptr) {
      step();
      return true;
    }
    const std::string problem = finding_of(step);
    if (!problem.empty()) {
      problems->push_back(problem);
    }
    return problem.empty();
  };
  Proof proof;
  const JournalSummary& summary = proof.summary;
  const bool listed =
      attempt([&] { proof.journal = prove_journal(folder, state, proof.summary, stop); });
  if (listed) {  // otherwise its counts cover only some of the lines
    attempt([&] {
      const std::string problem = finding_of([&] { prove_counts(manifest, summary); });
      demand(problem.empty(), "{}: {}", io::escape((folder / kManifestFile).native()), problem);
    });
  }
  for (const FileRecord& file : summary.files()) {
    for (const auto problem_of : {&problem_of_data, &problem_of_index}) {
      attempt([&] {
        const std::string problem = problem_of(folder, layout, file, lock, stop);
        demand(problem.empty(), "{}", problem);
      });
    }
  }
  if (state.open_rows > 0) {
    attempt([&] { prove_open_files(folder, layout, state, proof, stop); });
  }
  attempt([&] { proof.errors = prove_errors(folder, state, stop); });
  const JobState* const before =
      summary.retries() == state.retries ? summary.before() : summary.state();
  if (state.retrying && before != nullptr) {
    attempt([&] { prove_retried(folder, *before, stop); });
  }
  if (state.finished && listed) {
    for (const std::string& name : uncounted_files(folder, layout, state)) {
      attempt([&] {
        fail("{}: is not part of this output, because {} does not count it; remove it",
             io::escape((folder / name).native()), kManifestFile);
      });
    }
  }
  if (lock != nullptr) {
    lock->flush();
  }
  return proof;
}

void prove_retried(const io::Folder& folder, const JobState& before, StopFlag stop) {
  const StoredFile file(folder, folder.has(kRetryingFile) ? kRetryingFile : kErrorsFile);
  (void)prove_content(
      file, {.bytes = before.errors_bytes, .sum = before.errors_sum, .lines = before.failed}, true,
      stop);
}

void prove_unsummed(const io::Folder& folder, const Manifest& manifest, StopFlag stop) {
  const JobState& state = manifest.state;
  const OutputLayout layout(manifest.identity);
  demand_finished(state);
  std::uint64_t rows = 0;
  for (std::uint64_t number = 0; number < state.shards; ++number) {
    const StoredFile data(folder, layout.data_file(number));
    std::uint64_t here = 0;
    if (layout.has_index()) {
      const StoredFile index(folder, layout.index_file(number));
      here = index.look_at(0, index.size(), stop).lines;
      demand(layout.is_length(data.size(), here),
             "{}: holds {} bytes, which do not match the {} rows in its index", data.shown(),
             data.size(), here);
    } else {
      here = data.look_at(0, data.size(), stop).lines;
    }
    rows += here;
  }
  demand(rows == state.rows, "{}: its files hold {} rows, but {} counts {}",
         io::escape(folder.path().native()), rows, kManifestFile, state.rows);
  const StoredFile errors(folder, kErrorsFile);
  const std::uint64_t failed = errors.look_at(0, errors.size(), stop).lines;
  demand(failed == state.failed, "{}: holds {} lines, but {} counts {}", errors.shown(), failed,
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
           "{}: holds {} bytes, which do not match its {} rows", data.shown(), data.size(),
           file.rows);
    Expected expected{.skipped = layout.header_bytes(), .bytes = data.size(), .sum = file.data_sum};
    if (layout.has_index()) {
      const std::string header = data.text(0, layout.header_bytes(), stop);
      demand(header == layout.header(file.rows), "{}: its header does not match {} rows",
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
    (void)prove_content(
        index, {.bytes = file.index_bytes, .sum = file.index_sum, .lines = file.rows}, true, stop);
    if (lock != nullptr) {
      lock->remember(name, file.index_sum, index.info());
    }
  });
}

std::vector<std::string> uncounted_files(const io::Folder& folder, const OutputLayout& layout,
                                         const JobState& state) {
  std::set<std::string> counted;  // of the files that are being written
  if (state.open_rows > 0) {
    for (const std::string& name :
         {layout.data_file(state.shards), layout.index_file(state.shards)}) {
      counted.insert(left_as(folder, name, false));
    }
  }
  std::vector<std::string> more = folder.list();
  std::erase_if(more, [&](const std::string& name) {
    return !is_shard_file(name) || layout.is_complete_file(name, state.shards) ||
           counted.contains(name);
  });
  return more;
}

}  // namespace fovea::pipeline
