// Finds and reads the files of a report, and puts its sections together.
#include "lab/report/report.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
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
#include "lab/report/report_document.hpp"
#include "lab/report/report_style.hpp"

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

/// A reason on one line, with the file first.
std::string told(const std::string& file, std::string_view reason) {
  const std::string text(reason);
  return text.starts_with(file) ? text : file + ": " + text;
}

/// The files that are named or lie in the folders, each once however it is named.
class Files {
 public:
  void add(const fs::path& path) {
    std::error_code unknown;
    const fs::path real = fs::canonical(path, unknown);
    files_.emplace(unknown ? path : real, path.lexically_normal());
  }
  /// With the folders in it, but those that links lead to. What cannot be listed is left out.
  void add_folder(const fs::path& folder, std::vector<std::string>& left_out) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      std::error_code unknown;  // reading the file says why
      if (entry->symlink_status(unknown).type() == fs::file_type::directory) {
        add_folder(entry->path(), left_out);
      } else if (is_result(entry->path())) {
        add(entry->path());
      }
    }
    if (error) {
      left_out.push_back(fmt::format("{}: this folder cannot be listed: {}",
                                     io::escape(folder.native()), error.message()));
    }
  }
  [[nodiscard]] const std::map<fs::path, fs::path>& by_place() const { return files_; }

 private:
  std::map<fs::path, fs::path> files_;  // as they are named, by where they are
};

Files files_of(std::span<const fs::path> inputs, std::vector<std::string>& left_out) {
  Files files;
  for (const fs::path& input : inputs) {
    std::error_code unknown;
    if (!io::exists(input)) {
      fail("{}: there is no such file or folder of results", io::escape(input.native()));
    }
    if (fs::is_directory(input, unknown)) {
      files.add_folder(input, left_out);
    } else {
      files.add(input);
    }
  }
  return files;
}

/// The lines of a file, one after another: a ledger may hold whole sources, line after line, and
/// only a line has to be small.
class Lines {
 public:
  explicit Lines(const io::File& file) : file_(file) {}

  /// Valid until another is asked for. None behind the last that has an end: what follows is what a
  /// killed run leaves.
  std::optional<std::string_view> next() {
    std::size_t end = text_.find('\n', begin_);
    while (end == std::string::npos) {
      text_.erase(0, std::exchange(begin_, 0));
      const std::size_t have = text_.size();
      if (have > io::kMaxJsonBytes) {
        fail("line {} has more than {} bytes", number_ + 1, io::kMaxJsonBytes);
      }
      constexpr std::size_t kAtOnce = std::size_t{256} << 10;
      text_.resize(have + kAtOnce);
      const std::size_t got =
          file_.read_some(offset_, std::as_writable_bytes(std::span(text_).subspan(have)));
      offset_ += got;
      text_.resize(have + got);
      if (got == 0) {
        return std::nullopt;
      }
      end = text_.find('\n', have);
    }
    const std::size_t begin = std::exchange(begin_, end + 1);
    ++number_;
    return std::string_view(text_).substr(begin, end - begin);
  }
  /// Of the line that was read last, from 1.
  [[nodiscard]] int number() const { return number_; }

 private:
  const io::File& file_;
  std::uint64_t offset_ = 0;  // of what is not read yet
  std::string text_;
  std::size_t begin_ = 0;  // in it, of the next line
  int number_ = 0;
};

Json read_ledger(const io::File& source, const std::string& file) {
  Json ledger = {{"candidates", Json::array()}, {"confirmations", Json::array()}};
  Lines lines(source);
  double cost = 0;  // of candidates, of profiles between them, and of measuring again
  std::string bad;  // a last line may be bad: a machine that lost its power leaves anything
  while (const std::optional<std::string_view> line = lines.next()) {
    if (!bad.empty()) {
      fail("{}", bad);
    }
    if (line->find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    Json entry;
    try {
      entry = io::parse_json_object(*line, fmt::format("{}: line {}", file, lines.number()));
    } catch (const Error& error) {
      bad = error.what();
      continue;
    }
    ledger.erase("end");  // a run that went on has not ended
    const std::string kind = text(entry, "kind", "");
    cost += kind == "end" ? 0 : number(entry, "cost_seconds", 0);
    if (kind == "candidate" || kind == "confirmation") {
      entry.erase("files");  // whole sources, which the page does not show
      ledger[kind + "s"].push_back(std::move(entry));
    } else if (kind == "run" || kind == "end") {
      ledger[kind] = std::move(entry);
    }
  }
  if (!ledger.contains("run")) {
    fail("{}: it is no ledger: no line of it is of the kind \"run\"", file);
  }
  ledger["cost_seconds"] = cost;
  return ledger;
}

bool begins_as_ledger(const io::File& file) {
  constexpr std::string_view kBegin = R"({"kind": "run")";
  std::array<char, kBegin.size()> bytes{};
  const std::size_t got = file.read_some(0, std::as_writable_bytes(std::span(bytes)));
  const std::string_view begin(bytes.data(), got);
  return begin == kBegin || begin.starts_with(R"({"kind":"run")");
}

/// What a command prints as JSON has "fovea.kernel." before its kind.
std::string document_kind(const Json& document) {
  const std::string kind = text(document, "kind", "");
  constexpr std::string_view kPrefix = "fovea.kernel.";
  return kind.starts_with(kPrefix) ? kind.substr(kPrefix.size()) : kind;
}

Document read_document(const fs::path& path) {
  Document document;
  document.file = io::escape(path.native());
  const io::File file(path);
  const bool is_ledger = path.extension() == ".jsonl" || begins_as_ledger(file);
  document.json = is_ledger ? read_ledger(file, document.file)
                            : io::parse_json_object(io::read_small_file(path), document.file);
  document.kind = is_ledger ? "ledger" : document_kind(document.json);
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
  struct Machine {
    std::string driver, clocks, when;
  };
  std::map<std::string, Machine> machines;
  const auto renew = [](std::string& known, const std::string& newer) {
    known = newer.empty() ? known : newer;  // not every result says all of it
  };
  for (const Document& document : documents) {
    Machine& machine = machines[document.device];
    renew(machine.driver, document.driver);
    renew(machine.clocks, document.clocks);
    renew(machine.when, document.date.empty() ? "" : document.when());
  }
  std::string html;
  for (const auto& [device, machine] : machines) {
    std::string line = device;
    line += machine.driver.empty() ? "" : ", driver " + machine.driver;
    line += machine.clocks.empty() ? "" : ", SM clock up to " + machine.clocks + " MHz";
    line += machine.when.empty() ? "" : "; newest result of " + machine.when;
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
  const Files files = files_of(inputs, made.left_out);
  for (const auto& [place, path] : files.by_place()) {
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
    std::set<std::string> reasons;  // sections may have the same
    for (const auto& section : sections) {
      try {
        shown = section->take(document) || shown;
      } catch (const Error& error) {
        reasons.insert(error.what());
      }
    }
    if (!shown && reasons.empty() && document.kind != "bench") {
      reasons.insert(fmt::format("it is of the kind \"{}\", for which this page has no section",
                                 document.kind));
    }
    for (const std::string& reason : reasons) {
      made.left_out.push_back(told(document.file, (shown ? "in part: " : "") + reason));
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
