// Formats and parses lines of checksums.jsonl.
#include "pipeline/journal.hpp"

#include <type_traits>

#include "core/error.hpp"
#include "io/digest.hpp"
#include "io/json.hpp"
#include "pipeline/json_fields.hpp"

namespace fovea::pipeline {
namespace {

// Passes the fields of a record to a FieldWriter or a FieldReader.
template <typename Json>
void visit_fields(const Json& json, auto& record) {
  using Record = std::remove_cvref_t<decltype(record)>;
  if constexpr (std::is_same_v<Record, FileRecord>) {
    json.count("file", record.number);
    json.count("rows", record.rows);
    json.count("data_bytes", record.data_bytes);
    json.count("index_bytes", record.index_bytes);
    json.hash("data_sum", record.data_sum);
    json.hash("index_sum", record.index_sum);
  } else if constexpr (std::is_same_v<Record, RetryRecord>) {
    json.count("retry", record.number);
  } else {
    json.count("inputs", record.inputs);
    json.hash("names", record.names);
    json.count("rows", record.rows);
    json.count("failed", record.failed);
    json.count("files", record.shards);
    json.count_if_any("lost_range", record.lost_range);
    json.count("open_rows", record.open_rows);
    json.count("open_bytes", record.open_bytes);
    json.count("index_bytes", record.index_bytes);
    json.count("errors_bytes", record.errors_bytes);
    json.hash("data_sum", record.data_sum);
    json.hash("index_sum", record.index_sum);
    json.hash("errors_sum", record.errors_sum);
  }
}

template <typename Record>
JournalLine read_record(const nlohmann::json& json) {
  Record record;
  visit_fields(FieldReader(json), record);
  return record;
}

JournalLine from_json(const nlohmann::json& json) {
  return json.contains("job")     ? read_identity(read_object(json, "job"))
         : json.contains("file")  ? read_record<FileRecord>(json)
         : json.contains("retry") ? read_record<RetryRecord>(json)
                                  : read_record<JobState>(json);
}

}  // namespace

std::string format_journal_line(const JournalLine& line) {
  nlohmann::ordered_json json;
  std::visit(
      [&]<typename Record>(const Record& record) {
        if constexpr (std::is_same_v<Record, JobIdentity>) {
          write_identity(json["job"], record);
        } else {
          visit_fields(FieldWriter(json), record);
        }
      },
      line);
  json["check"] = format_hash(io::Digest::sha256_head(json.dump()));
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
    fail("the line was altered after it was written: its checksum does not match");
  }
  return line;
}

}  // namespace fovea::pipeline
