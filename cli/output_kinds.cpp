// The table of output kinds, and functions that recognise files written by Fovea by their first
// bytes or by adjacent files.
#include "cli/output_kinds.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <span>
#include <system_error>

#include <unistd.h>

#include "cli/json_output.hpp"
#include "core/error.hpp"
#include "fovea/job.hpp"
#include "io/descriptor.hpp"
#include "io/html.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

/// Returns the first bytes of a file; "" when it cannot be read.
std::string read_head(const fs::path& file, std::size_t bytes = 65536) {
  try {
    const io::OpenedFile opened = io::open_regular_file(file);
    std::string head(bytes, '\0');
    const ssize_t bytes_read = ::pread(opened.file.get(), head.data(), head.size(), 0);
    head.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes_read, 0)));
    return head;
  } catch (const Error&) {
    return "";
  }
}

bool begins_with(const fs::path& file, std::string_view text) {
  return read_head(file, text.size()) == text;
}

/// Returns the "kind" of a JSON document, which is the first field in those that Fovea writes.
std::string json_kind(const fs::path& file) {
  std::string head = read_head(file, 256);
  std::erase_if(head, [](unsigned char c) { return std::isspace(c) != 0; });
  constexpr std::string_view kBegin = R"({"kind":")";
  return head.starts_with(kBegin)
             ? head.substr(kBegin.size(), head.find('"', kBegin.size()) - kBegin.size())
             : "";
}

bool is_json_document(const fs::path& file) {
  return json_kind(file).starts_with(kKindPrefix);
}

/// Whether the file is a report of `kernel bench` or of a script; the latter begin with "machine".
bool is_bench_report(const fs::path& file) {
  std::string head = read_head(file, 256);
  std::erase_if(head, [](unsigned char c) { return std::isspace(c) != 0; });
  return is_json_document(file) || head.starts_with(R"({"machine":{")");
}

bool is_gate_record(const fs::path& file) {
  return json_kind(file) == "gates" || is_json_document(file);
}

bool is_page_file(const fs::path& file) {
  return read_head(file).find(io::kHtmlGenerator) != std::string::npos;
}

bool is_picture_file(const fs::path& file) {
  using namespace std::string_view_literals;
  const std::string head = read_head(file, 256);
  return head.starts_with("\x89PNG\r\n"sv) &&
         head.find("tEXtSoftware\0Fovea"sv) != std::string::npos;
}

bool is_labels_file(const fs::path& file) {
  const std::string head = read_head(file);
  const std::string line = head.substr(0, head.find('\n'));
  return line.starts_with(R"({"source":)") &&
         line.find(R"("labels":[{"label":)") != std::string::npos;
}

bool is_sarif_file(const fs::path& file) {
  const std::string head = read_head(file, 1024);
  return head.find("sarif-2.1.0") != std::string::npos &&
         head.find("\"fovea emulate\"") != std::string::npos;
}

bool is_machine_code(const fs::path& file) {
  constexpr std::size_t kMachine = 18;  // offset of the 16-bit e_machine in the ELF header
  constexpr char kCuda = '\xbe';        // EM_CUDA, 190
  const std::string head = read_head(file, 20);
  return head.size() == 20 &&
         head.starts_with(
             "\x7f"
             "ELF") &&
         head[kMachine] == kCuda;
}

bool is_task_file(const fs::path& file) {
  return read_head(file).find("written by `fovea kernel export`") != std::string::npos;
}

bool is_profile_file(const fs::path& file) {
  return json_kind(file) == "profile" || is_json_document(file) || begins_with(file, "NVR");
}

constexpr const char* kSanitizerReport = "sanitizers.json";

bool is_sanitizer_file(const fs::path& file) {
  const std::string kind = json_kind(file.parent_path() / kSanitizerReport);
  return kind == "sanitizers" || kind.starts_with(kKindPrefix);
}

Files sanitizer_files(const std::string& value) {
  Files files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(value, error)) {
    const std::string name = entry.path().filename().native();
    const bool is_log =
        std::ranges::any_of(std::array{"memcheck-", "racecheck-", "synccheck-", "initcheck-"},
                            [&](const char* tool) { return name.starts_with(tool); });
    if (name == kSanitizerReport || is_log) {
      files.push_back(entry.path());
    }
  }
  return files;
}

bool is_shared_file(const fs::path& file) {
  return read_head(file, 1024).find("fovea") != std::string::npos;
}

Files shared_files(const std::string& value) {
  const fs::path share = value;
  Files files = {share / "bash-completion/completions/fovea", share / "zsh/site-functions/_fovea",
                 share / "fish/vendor_completions.d/fovea.fish"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(share / "man/man1", error)) {
    if (entry.path().filename().native().starts_with("fovea")) {
      files.push_back(entry.path());
    }
  }
  return files;
}

bool is_calibration(const fs::path& file) {
  return read_head(file).find(R"("fingerprint":{"dtype":"U64","shape":[1])") != std::string::npos;
}

Files calibration_files(const std::string& value) {
  Files files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(value, error)) {
    if (entry.path().filename().native().starts_with("calibration-") &&
        entry.path().extension() == ".safetensors") {
      files.push_back(entry.path());
    }
  }
  return files;
}

Files json_files(const std::string& value) {
  const std::string file = JsonOutput::file_from_value(value);
  return file.empty() ? Files() : Files{file};
}

Files labels_files(const std::string& value) {
  return value == "-" ? Files() : Files{value};
}

Files embeddings_files(const std::string& value) {
  constexpr std::string_view kArray = ".npy";
  if (!value.ends_with(kArray)) {
    return {};
  }
  const std::string stem = value.substr(0, value.size() - kArray.size());
  return {value, stem + ".index.jsonl", stem + ".errors.jsonl"};
}

Files no_files(const std::string& /*value*/) {
  return {};
}

}  // namespace

bool KindOfOutput::allows(std::string_view ending) const {
  return ending == ".txt" || std::ranges::any_of(endings, [&](std::string_view kind_ending) {
           return std::ranges::equal(kind_ending, ending, [](unsigned char a, unsigned char b) {
             return std::tolower(a) == std::tolower(b);
           });
         });
}

Files KindOfOutput::output_files(const std::string& value) const {
  return files == nullptr ? Files{value} : files(value);
}

std::span<const KindOfOutput> output_kinds() {
  using enum OutputKind;
  static const std::vector<KindOfOutput> kinds = {
      {kJson, "json", "JSON", {".json"}, is_json_document, json_files},
      {kBenchReport,
       "bench report",
       "a report of measurements",
       {".json"},
       is_bench_report,
       json_files},
      {kGateRecord, "gate record", "a record of gates", {".json"}, is_gate_record},
      {kPage, "page", "an HTML page", {".html", ".htm"}, is_page_file},
      {kPicture, "picture", "a PNG picture", {".png"}, is_picture_file},
      {kLabels,
       "labels",
       "lines of JSON",
       {".jsonl", ".ndjson", ".json"},
       is_labels_file,
       labels_files},
      {kTable,
       "table",
       "a CSV table",
       {".csv"},
       [](const fs::path& file) { return begins_with(file, "name,a,b,ratio,verdict\n"); }},
      {kTrace,
       "trace",
       "a trace",
       {},
       [](const fs::path& file) { return begins_with(file, "# grid "); }},
      {kSarif, "sarif", "findings in SARIF", {".sarif", ".json"}, is_sarif_file},
      {kGraph,
       "graph",
       "a graph for dot",
       {".dot", ".gv"},
       [](const fs::path& file) { return begins_with(file, "digraph \""); }},
      {kMachineCode, "machine code", "machine code", {".cubin"}, is_machine_code},
      {kCaptures, "captures", "captures", {".captures", ".zst"}, is_captures_file},
      {kTask, "task", "a task in Python", {".py"}, is_task_file},
      {kProfile, "profile", "profiles", {}, is_profile_file, profile_files},
      {kLedger, "ledger", "a ledger", {".jsonl", ".ndjson", ".json"}},
      {kEmbeddings, "embeddings", "embeddings", {".npy"}, nullptr, embeddings_files},
      {kFolder, "folder", "a folder", {}, nullptr, no_files, true},
      {kSanitizers,
       "sanitizers",
       "reports of sanitizers",
       {},
       is_sanitizer_file,
       sanitizer_files,
       true},
      {kCalibrations, "calibrations", "calibrations", {}, is_calibration, calibration_files, true},
      {kShare, "share", "man pages and completion scripts", {}, is_shared_file, shared_files, true},
  };
  return kinds;
}

bool is_image(const fs::path& file) {
  const std::string head = read_head(file);
  return begins_as_image(std::as_bytes(std::span(head)));
}

std::string kind_phrase(std::string_view kind) {
  return kind == "image" ? "an image" : kind == "video" ? "a video" : std::string(kind);
}

}  // namespace fovea::cli
