// Finds and reads the files of a report, and puts its sections together.
#include "lab/report.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/html.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "lab/report_document.hpp"
#include "lab/report_style.hpp"

namespace fovea::lab::report {
namespace {

namespace fs = std::filesystem;

// Sections of files of bench/run_gpu.py and bench/run.py: such a file is none of a stranger's.
constexpr std::array kBenchKeys = {
    "kernels",       "gpu_bench",  "sanitizer",           "encoder",
    "image",         "python",     "gpu_end_to_end",      "accuracy",
    "torch_encoder", "torch_gemm", "operators_attention", "operators_accepted"};

bool is_result(const fs::path& path) {
  return path.extension() == ".json" || path.extension() == ".jsonl";
}

/// The files that are named or lie in the folders, each once.
std::vector<fs::path> files_of(std::span<const fs::path> inputs) {
  std::set<fs::path> files;
  for (const fs::path& input : inputs) {
    if (!fs::is_directory(input)) {
      files.insert(input.lexically_normal());
      continue;
    }
    for (const auto& entry :
         fs::recursive_directory_iterator(input, fs::directory_options::skip_permission_denied)) {
      if (entry.is_regular_file() && is_result(entry.path())) {
        files.insert(entry.path().lexically_normal());
      }
    }
  }
  return {files.begin(), files.end()};
}

/// A ledger's lines; a last line without an end is what a killed run leaves, and is dropped.
Json read_ledger(std::string_view content, const std::string& file) {
  Json ledger = {{"candidates", Json::array()}};
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    if (end == std::string_view::npos) {
      break;
    }
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    Json entry = io::parse_json_object(line, file);
    const std::string kind = text(entry, "kind", "");
    if (kind == "candidate") {
      ledger["candidates"].push_back(std::move(entry));
    } else if (kind == "run" || kind == "end" || kind == "confirmation") {
      ledger[kind] = std::move(entry);
    }
  }
  if (!ledger.contains("run")) {
    fail("{}: it is no ledger: no line of it is of the kind \"run\"", file);
  }
  return ledger;
}

Document read_document(const fs::path& path) {
  Document document;
  document.file = io::escape(path.native());
  const std::string content = io::read_small_file(path);
  const bool is_ledger = path.extension() == ".jsonl" || content.starts_with(R"({"kind":"run")") ||
                         content.starts_with(R"({"kind": "run")");
  document.json = is_ledger ? read_ledger(content, document.file)
                            : io::parse_json_object(content, document.file);
  document.kind = is_ledger ? "ledger" : text(document.json, "kind", "");
  if (document.kind.empty()) {
    if (std::ranges::none_of(kBenchKeys,
                             [&](const char* key) { return document.json.contains(key); })) {
      fail("{}: it is no result of the laboratory", document.file);
    }
    document.kind = "bench";
  }
  const Json& machine = part(is_ledger ? document.json["run"] : document.json, "machine");
  const Json& gpu = part(machine, "gpu");
  document.device = text(gpu, "name", "");
  if (document.device.empty()) {
    document.device = text(part(machine, "cpu"), "model", "an unnamed machine");
  }
  document.driver = text(gpu, "driver", text(part(machine, "versions"), "driver", "").c_str());
  document.clocks = text(gpu, "max_sm_clock_mhz", text(gpu, "most_sm_mhz", "").c_str());
  document.date = text(machine, "date", "");
  document.commit = text(machine, "commit", "");
  return document;
}

/// A reason on one line, with the file first.
std::string told(const std::string& file, std::string_view reason) {
  const std::string text(reason);
  return text.starts_with(file) ? text : file + ": " + text;
}

Sections all_sections() {
  Sections sections;
  add_bench_sections(sections);
  add_profile_sections(sections);
  add_ledger_section(sections);
  add_history_section(sections);
  add_verdict_sections(sections);
  return sections;
}

/// The machines, with the newest driver and commit of each.
std::string machines_of(const std::vector<Document>& documents) {
  std::map<std::string, std::string> machines;
  for (const Document& document : documents) {
    std::string& line = machines[document.device];
    line = document.device;
    line += document.driver.empty() ? "" : ", driver " + document.driver;
    line += document.clocks.empty() ? "" : ", SM clock up to " + document.clocks + " MHz";
    line += document.date.empty() ? "" : "; newest result of " + document.when();
  }
  std::string html;
  for (const auto& [device, line] : machines) {
    html += "<p>" + safe(line) + "</p>\n";
  }
  return html;
}

}  // namespace

}  // namespace fovea::lab::report

namespace fovea::lab {

Report make_report(std::span<const std::filesystem::path> inputs) {
  namespace fs = std::filesystem;
  using namespace report;
  Report made;
  std::vector<Document> documents;
  for (const fs::path& path : files_of(inputs)) {
    try {
      documents.push_back(read_document(path));
    } catch (const Error& error) {
      made.left_out.push_back(told(io::escape(path.native()), error.what()));
    }
  }
  std::ranges::sort(documents, {}, [](const Document& one) {
    return std::tuple(one.date, fs::path(one.file).filename().native(), one.file);
  });
  const Sections sections = all_sections();
  std::erase_if(documents, [&](const Document& document) {
    bool shown = false;
    try {
      for (const auto& section : sections) {
        shown = section->take(document) || shown;
      }
      if (!shown && document.kind != "bench") {
        fail("it is of the kind \"{}\", for which this page has no section", document.kind);
      }
    } catch (const Error& error) {
      made.left_out.push_back(told(document.file, error.what()));
    }
    return !shown;
  });
  if (documents.empty()) {
    fail("there is nothing to show: {}", made.left_out.empty()
                                             ? "these folders hold no results (.json, .jsonl)"
                                             : made.left_out.front());
  }
  made.documents = static_cast<int>(documents.size());
  std::string body;
  std::string links;
  for (const auto& section : sections) {
    if (const std::string html = section->html(); !html.empty()) {
      links += fmt::format("<a href=\"#{}\">{}</a>", section->id(), section->title());
      body += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", section->id(),
                          section->title(), html);
    }
  }
  if (!made.left_out.empty()) {
    links += "<a href=\"#left-out\">Left out</a>";
    body += "<section id=\"left-out\">\n<h2>Left out</h2>\n<ul>\n";
    for (const std::string& line : made.left_out) {
      body += "<li>" + safe(line) + "</li>\n";
    }
    body += "</ul>\n</section>\n";
  }
  made.html =
      io::html_head("Kernel laboratory", kStyle) +
      fmt::format(
          "<header><h1>Kernel laboratory</h1>\n{}<nav aria-label=\"Sections\">{}</nav>"
          "</header>\n<main>\n{}</main>\n<footer>From {} file{} of results. Made by Fovea "
          "" FOVEA_VERSION ".</footer>\n</body>\n</html>\n",
          machines_of(documents), links, body, made.documents, made.documents == 1 ? "" : "s");
  return made;
}

}  // namespace fovea::lab
