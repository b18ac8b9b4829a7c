// Compares the files of an output with the records of their sizes and checksums.
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
void require_that(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }
}

// The recorded properties of a file.
struct Expected {
  std::uint64_t skipped = 0;  // bytes at the beginning that the checksum does not cover
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
  std::optional<std::uint64_t> lines = std::nullopt;
};

// Describes the first invalid line of a file, such as " (line 3: not a JSON object)"; empty when
// all lines are valid.
std::string describe_invalid_line(const StoredFile& file, std::uint64_t bytes, StopFlag stop) {
  std::string description;
  file.each_line(bytes, stop, [&](std::string_view line, std::uint64_t number) {
    if (description.empty()) {
      const std::string reason = finding_of([&] { (void)parse_error_source(line); });
      description = reason.empty() ? "" : fmt::format(" (line {}: {})", number, reason);
    }
  });
  return description;
}

io::Digest prove_content(const StoredFile& file, const Expected& expected, bool is_whole_file,
                         StopFlag stop) {
  require_that(file.size() >= expected.bytes && (!is_whole_file || file.size() == expected.bytes),
               "{}: the file has {} bytes, but {} were written", file.display_path(), file.size(),
               expected.bytes);
  require_that(expected.bytes >= expected.skipped, "{}: the file ends inside its header",
               file.display_path());
  StoredFile::Content content = file.read_content(expected.skipped, expected.bytes, stop);
  if (content.sum.head() != expected.sum) {
    fail("{}: the file was altered: the checksum of its first {} bytes is not the recorded one{}",
         file.display_path(), expected.bytes,
         expected.lines ? describe_invalid_line(file, expected.bytes, stop) : "");
  }
  require_that(!expected.lines || (content.lines == *expected.lines && content.ends_line),
               "{}: the file has {} complete lines, but {} are recorded", file.display_path(),
               content.lines, expected.lines.value_or(0));
  return std::move(content.sum);
}

// Returns the current name of a file: the final one, or the ".partial" one of an unfinished job.
std::string current_name(const io::Folder& folder, const std::string& name, bool finished) {
  return finished ? name : io::PartialFile::left_as(folder, name);
}

io::Digest prove_journal(const io::Folder& folder, const JobState& state, JournalSummary& summary,
                         StopFlag stop) {
  const StoredFile file(folder, current_name(folder, kJournalFile, state.finished));
  const std::uint64_t bytes = std::min(state.journal_bytes, file.size());
  // Parses only the last of consecutive states, since the checksum covers all lines anyway.
  std::string last_state;
  std::uint64_t last_state_number = 0;
  const auto add = [&](std::string_view line, std::uint64_t number) {
    try {
      summary.add(parse_journal_line(line));
    } catch (const Error& error) {
      fail("{}: line {}: {}", file.display_path(), number, error.what());
    }
  };
  const auto add_last_state = [&] {
    if (!last_state.empty()) {
      add(last_state, last_state_number);
      last_state.clear();
    }
  };
  file.each_line(bytes, stop, [&](std::string_view line, std::uint64_t number) {
    if (is_state_line(line)) {
      last_state = line;
      last_state_number = number;
    } else {
      add_last_state();
      add(line, number);
    }
  });
  add_last_state();
  return prove_content(file, {.bytes = state.journal_bytes, .sum = state.journal_sum},
                       state.finished, stop);
}

io::Digest prove_errors(const io::Folder& folder, const JobState& state, StopFlag stop) {
  if (state.errors_bytes == 0 && !state.finished) {
    return io::Digest();  // the file may not exist yet
  }
  const StoredFile file(folder, current_name(folder, kErrorsFile, state.finished));
  return prove_content(
      file, {.bytes = state.errors_bytes, .sum = state.errors_sum, .lines = state.failed},
      state.finished, stop);
}

void prove_open_files(const io::Folder& folder, const OutputLayout& layout, const JobState& state,
                      Proof& proof, StopFlag stop) {
  const StoredFile data(folder, current_name(folder, layout.data_file(state.shards), false));
  require_that(layout.is_file_size(state.open_bytes, state.open_rows),
               "{}: {} rows cannot have {} bytes, as {} says", data.display_path(), state.open_rows,
               state.open_bytes, kManifestFile);
  Expected expected{
      .skipped = layout.header_bytes(), .bytes = state.open_bytes, .sum = state.data_sum};
  if (!layout.has_index()) {
    expected.lines = state.open_rows;
  }
  proof.data = prove_content(data, expected, false, stop);
  if (layout.has_index()) {
    const StoredFile index(folder, current_name(folder, layout.index_file(state.shards), false));
    proof.index = prove_content(
        index, {.bytes = state.index_bytes, .sum = state.index_sum, .lines = state.open_rows},
        false, stop);
  }
}

void prove_finished_counts(const JobState& state) {
  require_that(
      !state.retrying && state.open_rows == 0 && state.open_bytes == 0 && state.index_bytes == 0,
      "the job is finished, but a file is still being written");
  require_that(state.inputs == state.all_inputs && state.names == state.all_names &&
                   state.rows + state.failed == state.inputs,
               "{} rows and {} failed inputs do not add up to {} inputs", state.rows, state.failed,
               state.all_inputs);
}

}  // namespace

void JournalSummary::add(const JournalLine& line) {
  if (const auto* const identity = std::get_if<JobIdentity>(&line)) {
    require_that(!identity_ && files_.empty() && !state_, "the line describes a second job");
    identity_ = *identity;
  } else if (const auto* const file = std::get_if<FileRecord>(&line)) {
    require_that(file->number == files_.size(), "the line describes file {}, expected file {}",
                 file->number, files_.size());
    files_.push_back(*file);
    rows_ += file->rows;
  } else if (const auto* const retry = std::get_if<RetryRecord>(&line)) {
    require_that(state_ && retry->number == retries_ + 1,
                 "the line describes retry {}, expected retry {}", retry->number, retries_ + 1);
    retries_ = retry->number;
    previous_pass_ = std::exchange(state_, std::nullopt);
    first_pass_ = first_pass_ ? first_pass_ : previous_pass_;
    rows_before_pass_ = rows_;
  } else {
    JobState state = std::get<JobState>(line);
    require_that(state.shards == files_.size() && state.rows == rows_ + state.open_rows,
                 "the line contradicts the lines before it");
    state.retries = retries_;
    state.retrying = retries_ > 0;
    state.all_inputs = first_pass_ ? first_pass_->inputs : 0;
    state.all_names = first_pass_ ? first_pass_->names : 0;
    state_ = state;
  }
}

void prove_counts(const Manifest& manifest, const JournalSummary& summary) {
  const JobState& state = manifest.state;
  require_that(summary.identity() != nullptr && format_journal_line(*summary.identity()) ==
                                                    format_journal_line(manifest.identity),
               "the job differs from that in {}", kJournalFile);
  require_that(state.shards == summary.files().size(),
               "the manifest counts {} complete files, but {} lists {}", state.shards, kJournalFile,
               summary.files().size());
  require_that(state.rows == summary.rows() + state.open_rows &&
                   state.open_rows < manifest.identity.shard_rows,
               "the manifest counts {} rows, {} of them in an incomplete file, but {} lists {}",
               state.rows, state.open_rows, kJournalFile, summary.rows());
  // A file that does not exist must have size 0 and checksum 0; others are compared later.
  const bool no_index = state.index_bytes == 0 && state.index_sum == 0;
  require_that(state.open_rows > 0
                   ? state.open_bytes > 0 && no_index != OutputLayout(manifest.identity).has_index()
                   : state.open_bytes == 0 && state.data_sum == 0 && no_index,
               "the manifest describes a file with {} rows and {} bytes", state.open_rows,
               state.open_bytes);
  require_that((state.failed > 0) == (state.errors_bytes > 0) &&
                   (state.failed > 0 || state.errors_sum == io::Digest().head()),
               "the manifest describes {} failed inputs in {} bytes", state.failed,
               state.errors_bytes);
  // The job may have been killed between the two records of a new retry: after it was written to
  // the manifest, before it was written to the journal.
  const bool is_new_retry = state.retrying && state.inputs == 0 && state.failed == 0 &&
                            state.retries == summary.retries() + 1 && summary.state() != nullptr;
  require_that(is_new_retry || state.retries == summary.retries(),
               "the manifest counts {} retries, but {} lists {}", state.retries, kJournalFile,
               summary.retries());
  require_that(state.finished || state.retrying == (state.retries > 0),
               "\"retrying\" and the number of retries contradict each other");
  const JobState* const first_pass =
      summary.first_pass() != nullptr ? summary.first_pass() : summary.state();
  if (state.finished) {
    prove_finished_counts(state);
    const JobState* const last_state = summary.state();
    require_that(last_state != nullptr && last_state->failed == state.failed &&
                     last_state->errors_sum == state.errors_sum,
                 "the job is finished, but {} does not record its end", kJournalFile);
  } else {
    const std::uint64_t rows_before = is_new_retry ? summary.rows() : summary.rows_before_pass();
    require_that(state.rows + state.failed == rows_before + state.inputs,
                 "{} new rows and {} failed inputs do not add up to {} inputs",
                 state.rows - rows_before, state.failed, state.inputs);
  }
  const bool has_first_pass = state.finished || state.retrying;
  require_that(!has_first_pass || first_pass != nullptr,
               "the manifest counts a pass that {} does not list", kJournalFile);
  require_that(state.all_inputs == (has_first_pass ? first_pass->inputs : 0) &&
                   state.all_names == (has_first_pass ? first_pass->names : 0),
               "the manifest counts {} inputs in total, but {} lists {}", state.all_inputs,
               kJournalFile, has_first_pass ? first_pass->inputs : 0);
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
  const bool is_journal_valid =
      attempt([&] { proof.journal = prove_journal(folder, state, proof.summary, stop); });
  if (is_journal_valid) {  // otherwise the summary may be incomplete
    attempt([&] {
      const std::string problem = finding_of([&] { prove_counts(manifest, summary); });
      require_that(problem.empty(), "{}: {}", io::escape((folder / kManifestFile).native()),
                   problem);
    });
  }
  for (const FileRecord& file : summary.files()) {
    for (const auto find_problem : {&data_problem, &index_problem}) {
      attempt([&] {
        const std::string problem = find_problem(folder, layout, file, lock, stop);
        require_that(problem.empty(), "{}", problem);
      });
    }
  }
  if (state.open_rows > 0) {
    attempt([&] { prove_open_files(folder, layout, state, proof, stop); });
  }
  attempt([&] { proof.errors = prove_errors(folder, state, stop); });
  const JobState* const previous_pass =
      summary.retries() == state.retries ? summary.previous_pass() : summary.state();
  if (state.retrying && previous_pass != nullptr) {
    attempt([&] { prove_retry_list(folder, *previous_pass, stop); });
  }
  if (state.finished && is_journal_valid) {
    for (const std::string& name : uncounted_files(folder, layout, state)) {
      attempt([&] {
        fail("{}: the file is not part of this output, because {} does not count it; remove it",
             io::escape((folder / name).native()), kManifestFile);
      });
    }
  }
  if (lock != nullptr) {
    lock->flush();
  }
  return proof;
}

void prove_retry_list(const io::Folder& folder, const JobState& previous_pass, StopFlag stop) {
  const StoredFile file(folder, folder.has(kRetryingFile) ? kRetryingFile : kErrorsFile);
  (void)prove_content(file,
                      {.bytes = previous_pass.errors_bytes,
                       .sum = previous_pass.errors_sum,
                       .lines = previous_pass.failed},
                      true, stop);
}

void prove_unsummed(const io::Folder& folder, const Manifest& manifest, StopFlag stop) {
  const JobState& state = manifest.state;
  const OutputLayout layout(manifest.identity);
  prove_finished_counts(state);
  std::uint64_t rows = 0;
  for (std::uint64_t number = 0; number < state.shards; ++number) {
    const StoredFile data(folder, layout.data_file(number));
    std::uint64_t file_rows = 0;
    if (layout.has_index()) {
      const StoredFile index(folder, layout.index_file(number));
      file_rows = index.read_content(0, index.size(), stop).lines;
      require_that(layout.is_file_size(data.size(), file_rows),
                   "{}: the file has {} bytes, which do not match the {} rows in its index",
                   data.display_path(), data.size(), file_rows);
    } else {
      file_rows = data.read_content(0, data.size(), stop).lines;
    }
    rows += file_rows;
  }
  require_that(rows == state.rows, "{}: the files have {} rows, but {} counts {}",
               io::escape(folder.path().native()), rows, kManifestFile, state.rows);
  const StoredFile errors(folder, kErrorsFile);
  const std::uint64_t failed = errors.read_content(0, errors.size(), stop).lines;
  require_that(failed == state.failed, "{}: the file has {} lines, but {} counts {}",
               errors.display_path(), failed, kManifestFile, state.failed);
}

std::string data_problem(const io::Folder& folder, const OutputLayout& layout,
                         const FileRecord& file, OutputLock* lock, StopFlag stop) {
  const std::string name = layout.data_file(file.number);
  if (lock != nullptr && lock->is_recorded(name, file.data_sum)) {
    return {};
  }
  return finding_of([&] {
    const StoredFile data(folder, name);
    require_that(layout.is_file_size(data.size(), file.rows),
                 "{}: the file has {} bytes, which do not match its {} rows", data.display_path(),
                 data.size(), file.rows);
    Expected expected{.skipped = layout.header_bytes(), .bytes = data.size(), .sum = file.data_sum};
    if (layout.has_index()) {
      const std::string header = data.text(0, layout.header_bytes(), stop);
      require_that(header == layout.header(file.rows), "{}: the header does not match {} rows",
                   data.display_path(), file.rows);
    } else {
      expected.lines = file.rows;
    }
    (void)prove_content(data, expected, true, stop);
    if (lock != nullptr) {
      lock->record(name, file.data_sum, data.info());
    }
  });
}

std::string index_problem(const io::Folder& folder, const OutputLayout& layout,
                          const FileRecord& file, OutputLock* lock, StopFlag stop) {
  const std::string name = layout.index_file(file.number);
  if (!layout.has_index() || (lock != nullptr && lock->is_recorded(name, file.index_sum))) {
    return {};
  }
  return finding_of([&] {
    const StoredFile index(folder, name);
    (void)prove_content(
        index, {.bytes = file.index_bytes, .sum = file.index_sum, .lines = file.rows}, true, stop);
    if (lock != nullptr) {
      lock->record(name, file.index_sum, index.info());
    }
  });
}

std::vector<std::string> uncounted_files(const io::Folder& folder, const OutputLayout& layout,
                                         const JobState& state) {
  std::set<std::string> open_names;  // the current names of the files that are being written
  if (state.open_rows > 0) {
    for (const std::string& name :
         {layout.data_file(state.shards), layout.index_file(state.shards)}) {
      open_names.insert(current_name(folder, name, false));
    }
  }
  std::vector<std::string> names = folder.list();
  std::erase_if(names, [&](const std::string& name) {
    return !is_shard_file(name) || layout.is_complete_file(name, state.shards) ||
           open_names.contains(name);
  });
  return names;
}

}  // namespace fovea::pipeline
