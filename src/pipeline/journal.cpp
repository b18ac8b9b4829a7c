// Writes and reads lines of checksums.jsonl.
#include "pipeline/journal.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/json.hpp"
#include "pipeline/json_fields.hpp"
#include "pipeline/sha256.hpp"

namespace fovea::pipeline {
namespace {

using JournalJson = nlohmann::ordered_json;

// Joins lambdas into one visitor of a variant.
template <typename... Bodies>
struct Overloaded : Bodies... {
  using Bodies::operator()...;
};

JournalJson to_json(const JournalLine& line) {
  JournalJson json;
  std::visit(Overloaded{
                 [&](const JobIdentity& identity) { write_identity(json["job"], identity); },
                 [&](const FileRecord& file) {
                   json = {{"file", file.number},
                           {"rows", file.rows},
                           {"data_bytes", file.data_bytes},
                           {"index_bytes", file.index_bytes},
                           {"data_sum", format_hash(file.data_sum)},
                           {"index_sum", format_hash(file.index_sum)}};
                 },
                 [&](const JobState& state) {
                   json = {{"inputs", state.inputs},
                           {"names", format_hash(state.names)},
                           {"rows", state.rows},
                           {"failed", state.failed},
                           {"files", state.shards},
                           {"open_rows", state.open_rows},
                           {"open_bytes", state.open_bytes},
                           {"index_bytes", state.index_bytes},
                           {"errors_bytes", state.errors_bytes},
                           {"data_sum", format_hash(state.data_sum)},
                           {"index_sum", format_hash(state.index_sum)},
                           {"errors_sum", format_hash(state.errors_sum)}};
                 },
                 [&](const RetryRecord& retry) { json = {{"retry", retry.number}}; },
             },
             line);
  return json;
}

JournalLine from_json(const nlohmann::json& json) {
  if (json.contains("job")) {
    return read_identity(read_object(json, "job"));
  }
  if (json.contains("file")) {
    return FileRecord{.number = read_count(json, "file"),
                      .rows = read_count(json, "rows"),
                      .data_bytes = read_count(json, "data_bytes"),
                      .index_bytes = read_count(json, "index_bytes"),
                      .data_sum = read_hash(json, "data_sum"),
                      .index_sum = read_hash(json, "index_sum")};
  }
  if (json.contains("retry")) {
    return RetryRecord{.number = read_count(json, "retry")};
  }
  JobState state;
  state.inputs = read_count(json, "inputs");
  state.names = read_hash(json, "names");
  state.rows = read_count(json, "rows");
  state.failed = read_count(json, "failed");
  state.shards = read_count(json, "files");
  state.open_rows = read_count(json, "open_rows");
  state.open_bytes = read_count(json, "open_bytes");
  state.index_bytes = read_count(json, "index_bytes");
  state.errors_bytes = read_count(json, "errors_bytes");
  state.data_sum = read_hash(json, "data_sum");
  state.index_sum = read_hash(json, "index_sum");
  state.errors_sum = read_hash(json, "errors_sum");
  return state;
}

}  // namespace

std::string format_journal_line(const JournalLine& line) {
  JournalJson json = to_json(line);
  json["check"] = format_hash(Sha256::head_of(json.dump()));
  return json.dump() + "\n";
}

bool is_state_line(std::string_view text) {
  return text.starts_with("{\"inputs\"");
}

JournalLine parse_journal_line(std::string_view text) {
  const JournalLine line = from_json(io::parse_json_object(text, "its text"));
  std::string expected = format_journal_line(line);
  expected.pop_back();
  if (text != expected) {
    fail("was altered after it was written: its checksum does not match");
  }
  return line;
}

}  // namespace fovea::pipeline
