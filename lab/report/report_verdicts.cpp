// Verdicts of others: compute-sanitizer's of our kernels, and ours of foreign kernels.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lab/report/report_document.hpp"

namespace fovea::lab::report {
namespace {

class Sanitizers final : public Section {
 public:
  Sanitizers() : Section("sanitizers", "Sanitizers") {}

  bool take(const Document& document) override {
    // Files of bench/run_gpu.py that are older than `fovea kernel sanitize` have a section of them.
    const Json& json =
        document.kind == "sanitizers" ? document.json : part(document.json, "sanitizer");
    if (document.kind != "sanitizers" && (document.kind != "bench" || json.empty())) {
      return false;
    }
    const bool is_new = document.kind == "sanitizers";
    std::map<std::string, std::map<std::string, Run>> found;
    for (const Json& one : list(json, is_new ? "tools" : "runs")) {
      found[text(one, "card", "every card") + '\n' + document.device][text(one, "tool")] = {
          truth(one, is_new ? "passed" : "clean"), number(one, "seconds", 0),
          number(one, "errors", 0), document.origin()};
    }
    for (const auto& [card, tools] : found) {
      for (const auto& [tool, run] : tools) {
        if (std::ranges::find(tools_, tool) == tools_.end()) {
          tools_.push_back(tool);
        }
        runs_[card].insert_or_assign(tool, run);
      }
    }
    return !found.empty();
  }

  [[nodiscard]] std::string html() const override {
    std::vector<std::string> columns = {"card"};
    columns.insert(columns.end(), tools_.begin(), tools_.end());
    columns.emplace_back("newest");
    std::vector<Row> rows;
    std::vector<Row> bad;
    int clean = 0;
    int all = 0;
    for (const auto& [card, tools] : runs_) {
      Row row = {safe(card.substr(0, card.find('\n')))};
      std::string when;
      bool passed = true;
      for (const std::string& tool : tools_) {
        const auto found = tools.find(tool);
        if (found == tools.end()) {
          row.emplace_back("-");
          continue;
        }
        const Run& run = found->second;
        ++all;
        clean += run.passed ? 1 : 0;
        passed = passed && run.passed;
        when = std::max(when, run.when);
        row.push_back(badge(run.passed       ? "clean"
                            : run.errors > 0 ? fmt::format("{:.0f} errors", run.errors)
                                             : "did not end well",
                            run.passed) +
                      "<small>" + duration(run.seconds) + "</small>");
      }
      row.push_back(safe(when));
      (passed ? rows : bad).push_back(std::move(row));
    }
    if (all == 0) {
      return "";
    }
    return fmt::format("<p>{} of {} runs of compute-sanitizer are clean.</p>\n", clean, all) +
           (bad.empty() ? "" : table("Cards with errors", columns, bad)) +
           (rows.empty() ? ""
                         : folded(fmt::format("{} cards that are clean", rows.size()),
                                  table("Clean cards", columns, rows)));
  }

 private:
  struct Run {
    bool passed = false;
    double seconds = 0.0;
    double errors = 0.0;
    std::string when;
  };
  std::map<std::string, std::map<std::string, Run>> runs_;
  std::vector<std::string> tools_;  // in the order in which they ran
};

/// What `compare` says, run after run, of a difference that is known.
class Verdicts final : public Section {
 public:
  Verdicts() : Section("verdicts", "Verdicts on known differences") {}

  bool take(const Document& document) override {
    if (document.kind != "verdicts") {
      return false;
    }
    const Json& json = document.json;
    const std::string truth = text(json, "truth");
    std::map<std::string, int> said;
    for (const Json& run : list(json, "runs")) {
      ++said[text(run, "verdict")];
    }
    std::string verdicts;
    for (const auto& [verdict, count] : said) {
      verdicts += fmt::format("{} {} ", badge(verdict, verdict == truth), count);
    }
    const std::string card = text(json, "card");
    rows_[card + '\n' + text(json, "what") + '\n' + document.device] = {
        safe_name(card), safe(text(json, "what")), safe(truth), verdicts, safe(document.origin())};
    return true;
  }

  [[nodiscard]] std::string html() const override {
    return table("Verdicts of compare on known differences",
                 {"card", "B is", "true verdict", "verdicts", "measured"}, rows_);
  }

 private:
  std::map<std::string, Row> rows_;
};

/// What the laboratory did about that which was made to go wrong: proposers and slow-downs.
class Trials final : public Section {
 public:
  Trials() : Section("trials", "Made to go wrong") {}

  bool take(const Document& document) override {
    Rows found = rows_;
    if (document.kind == "hostile") {
      for (const Json& one : list(document.json, "misdeeds")) {
        std::string why;
        const Json& invalid = list(one, "invalid");
        for (const Json& candidate : invalid) {
          why += (why.empty() ? "" : "; ") + text(candidate, "failed_at") + ": " +
                 text(candidate, "why");
        }
        const bool passed = truth(one, "passed");
        found.misdeeds[text(one, "how") + '\n' + document.device] = {
            safe_name(text(one, "how")) + " " + badge(passed ? "passed" : "failed", passed) +
                "<small>" + safe(document.device) + "</small>",
            fmt::format("{}", invalid.size()), safe(why), safe(text(one, "exit_code", "-"))};
      }
    } else if (document.kind == "gate_planted") {
      const Json& gates = part(document.json, "gates");
      add(found, gates, "before", "the program's", document.device);
      add(found, gates, "after", text(gates, "what"), document.device);
      const Json& choice = part(document.json, "choice");
      add(found, choice, "gates", text(choice, "what"), document.device);
      for (const auto& [key, record] :
           {std::pair("before", "none"), std::pair("after", "with that slow-down")}) {
        const Json& run = part(choice, key);
        found.choices[document.device + key] = {record, safe(text(run, "level", "-")),
                                                safe_name(text(run, "kernel", "-")), notices(run)};
      }
    } else {
      return false;
    }
    rows_ = std::move(found);
    return true;
  }

  [[nodiscard]] std::string html() const override {
    return table("Proposers that misbehave once",
                 {"misdeed", "#invalid candidates", "reason", "#exit code"}, rows_.misdeeds) +
           table("Gates beside a planted slow-down",
                 {"card", "sources", "#exit code", "kernels that missed a gate"}, rows_.gates) +
           table("Which kernel attention runs by the record of gates",
                 {"record", "level", "kernel", "notices in one process"}, rows_.choices);
  }

 private:
  struct Rows {
    std::map<std::string, Row> misdeeds;
    std::map<std::string, Row> gates;
    std::map<std::string, Row> choices;
  };

  static void add(Rows& rows, const Json& of, const char* key, const std::string& sources,
                  const std::string& device) {
    const Json& run = part(of, key);
    std::string missed;
    for (const Json& level : list(run, "levels")) {
      if (!truth(level, "passed")) {
        const std::string name = text(level, "level", "");
        missed += (missed.empty() ? "" : ", ") + (name.empty() ? text(level, "kernel") : name);
      }
    }
    rows.gates[device + text(of, "card") + key] = {
        safe_name(text(of, "card")) + "<small>" + safe(device) + "</small>", safe(sources),
        safe(text(run, "exit_code", "-")), missed.empty() ? "-" : safe_name(missed)};
  }

  static std::string notices(const Json& run) {
    std::string all;
    const Json told = run.value("notices", Json::array());
    for (const Json& notice : told.is_array() ? told : Json::array()) {
      all += (all.empty() ? "" : "; ") + (notice.is_string() ? notice.get<std::string>() : "");
    }
    return all.empty() ? "-" : safe(all);
  }

  Rows rows_;
};

/// Foreign kernels.
class Judgements final : public Section {
 public:
  Judgements() : Section("judge", "Foreign kernels") {}

  bool take(const Document& document) override {
    if (document.kind != "judge") {
      return false;
    }
    std::map<std::string, Row> found;
    const Json& json = document.json;
    for (const Json& one : json.contains("answers") ? list(json, "answers") : Json::array({json})) {
      const std::string verdict = text(one, "verdict");
      const std::string device = text(one, "device", text(json, "device", "").c_str());
      const std::string where = document.device + (device.empty() ? "" : ", " + device);
      const std::string name = text(one, "task") + '\n' + text(one, "answer") + '\n' + where;
      const Json reasons = one.value("reasons", Json::array());
      std::string why;
      for (const Json& reason : reasons.is_array() ? reasons : Json::array()) {
        why += (why.empty() ? "" : "; ") + (reason.is_string() ? reason.get<std::string>() : "");
      }
      found[name] = {safe(text(one, "task")) + "<small>" + safe(where) + "</small>",
                     safe(text(one, "answer")), badge(verdict, verdict == "RIGHT"), safe(why),
                     speed_up(part(one, "figures"))};
    }
    found.merge(rows_);
    rows_ = std::move(found);
    return true;
  }

  [[nodiscard]] std::string html() const override {
    return table("Verdicts on foreign kernels",
                 {"task", "answer", "verdict", "reasons", "#speed-up"}, rows_);
  }

 private:
  /// With its spread, and AMBIGUOUS where that is no smaller than the difference.
  static std::string speed_up(const Json& figures) {
    const double ratio = number(figures, "speed_up_over_model", 0);
    if (ratio <= 0) {
      return "-";
    }
    const double seconds = number(figures, "seconds", 0);
    const double model = number(figures, "model_seconds", 0);
    const double of_seconds = number(figures, "spread", 0);
    const double of_model = number(figures, "model_spread", 0);
    const bool apart = std::abs(seconds - model) > std::max(of_seconds * seconds, of_model * model);
    return fmt::format("{:.2f}x<small>spread {}, Model's {}{}</small>", ratio, percent(of_seconds),
                       percent(of_model), apart ? "" : ", AMBIGUOUS");
  }

  std::map<std::string, Row> rows_;
};

}  // namespace

void add_verdict_sections(Sections& sections) {
  sections.push_back(std::make_unique<Sanitizers>());
  sections.push_back(std::make_unique<Verdicts>());
  sections.push_back(std::make_unique<Trials>());
  sections.push_back(std::make_unique<Judgements>());
}

}  // namespace fovea::lab::report
