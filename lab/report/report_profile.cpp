// Why kernels are as fast as they are: profiles, gates, and comparisons.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "lab/profile/figures.hpp"
#include "lab/report/report_document.hpp"

namespace fovea::lab::report {
namespace {

/// One colour for what warps wait for, whichever name a profile has for it.
struct Wait {
  std::string_view part_of_name;
  int colour;
};
constexpr std::array kWaits = {
    Wait{"long_scoreboard", 0}, Wait{"lg_throttle", 0},
    Wait{"tex_throttle", 0},    Wait{"drain", 0},
    Wait{"device memory", 0},   Wait{"global memory", 0},
    Wait{"texture", 0},         Wait{"short_scoreboard", 1},
    Wait{"mio_throttle", 1},    Wait{"shared memory", 1},
    Wait{"barrier", 2},         Wait{"membar", 2},
    Wait{"fence", 2},           Wait{"sleep", 2},
    Wait{"branch", 2},          Wait{"gmma", 3},
    Wait{"math_pipe", 3},       Wait{"matrix units", 3},
    Wait{"arithmetic", 3},      Wait{"wait", 4},
    Wait{"latency", 4},         Wait{"dispatch", 4},
    Wait{"selected", 5},        Wait{"their turn", 5},
};
constexpr std::array kColourNames = {"global memory",
                                     "shared memory",
                                     "other warps: barriers, fences, polling",
                                     "busy arithmetic units",
                                     "an instruction's latency",
                                     "issued, or another warp was",
                                     "anything else"};

std::size_t colour_of(std::string_view reason) {
  for (const Wait& wait : kWaits) {
    if (reason.find(wait.part_of_name) != std::string_view::npos) {
      return static_cast<std::size_t>(wait.colour);
    }
  }
  return kColourNames.size() - 1;
}

std::string in_words(std::string reason) {
  std::ranges::replace(reason, '_', ' ');
  return reason;
}

/// A bar as long as `share`, of the reasons in it. Those of a role are shares of all samples, or of
/// the role's: then they add up to more than the role has.
std::string bar(double share, const std::vector<std::pair<std::string, double>>& reasons) {
  double sum = 0;
  for (const auto& [reason, value] : reasons) {
    sum += std::max(value, 0.0);
  }
  constexpr double kRounding = 1.02;
  const double scale = sum <= share * kRounding ? 1 : share / std::max(sum, 1.0);
  std::string html = "<div class=\"bar\" aria-hidden=\"true\">";
  double left = std::clamp(share, 0.0, 1.0);
  for (const auto& [reason, value] : reasons) {
    const double width = std::min(left, value * scale);
    constexpr double kVisible = 0.002;
    if (width >= kVisible) {
      left -= width;
      html += fmt::format("<i class=\"c{}\" style=\"width:{:.2f}%\" title=\"{} {}\"></i>",
                          colour_of(reason), 100 * width, safe(in_words(reason)), percent(width));
    }
  }
  return html +
         fmt::format("<i class=\"c{}\" style=\"width:{:.2f}%\" title=\"not told apart\"></i></div>",
                     kColourNames.size() - 1, 100 * left);
}

std::string chief(const std::vector<std::pair<std::string, double>>& reasons) {
  std::string line;
  constexpr std::size_t kMost = 3;
  for (std::size_t i = 0; i < std::min(kMost, reasons.size()); ++i) {
    line += fmt::format("{}{} {}", i == 0 ? "" : ", ", safe(in_words(reasons[i].first)),
                        percent(reasons[i].second));
  }
  return line;
}

/// "mma.cuh:175 `o = 1;`": what stands between grave accents is code.
std::string with_code(const std::string& text) {
  const auto first = text.find('`');
  const auto last = text.rfind('`');
  return first == last ? safe(text)
                       : safe(text.substr(0, first)) + "<code>" +
                             safe(text.substr(first + 1, last - first - 1)) + "</code>" +
                             safe(text.substr(last + 1));
}

std::string stall_bars(const Json& json) {
  const auto row = [](const std::string& name, double share,
                      const std::vector<std::pair<std::string, double>>& reasons) {
    return fmt::format("<div class=\"role\"><span>{} <b>{}</b></span>{}<small>{}</small></div>\n",
                       with_code(name), percent(share), bar(share, reasons), chief(reasons));
  };
  std::string html = row("the whole kernel", 1, shares(json, "stalls"));
  for (const Json& role : json.contains("roles") ? list(json, "roles") : Json::array()) {
    html += row(text(role, "name"), share(role, "share"), shares(role, "stalls"));
  }
  return html;
}

/// By its name: "0.4" of a wave of CTAs is no share, and a share may be all of it.
bool is_share(std::string_view name) {
  const auto share_in = [&](const auto& infos) {
    const auto found = std::ranges::find(infos, name, &FigureInfo::name);
    return found != infos.end() && found->share;
  };
  return share_in(figures()) || share_in(figures_of_places()) || name.starts_with("stall_") ||
         name == "occupancy_reached";  // which gates add
}

std::string figure_text(const std::string& name, double value) {
  if (name.find("seconds") != std::string::npos && name.find("per_second") == std::string::npos) {
    return duration(value);
  }
  if (is_share(name)) {
    return percent(value);
  }
  constexpr double kSmall = 100;  // a count: "2" CTAs, not "2.00"
  return std::abs(value) < kSmall && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                                : digits(value);
}

class Profiles final : public Section {
 public:
  Profiles() : Section("profiles", "What warps wait for") {}

  bool take(const Document& document) override {
    if (document.kind != "profile") {
      return false;
    }
    const Json& json = document.json;
    const std::string of = text(json, "level", "") + '\n' + values(json, "parameters") + '\n' +
                           text(json, "sources", "");
    const std::string key = text(json, "card") + '\n' + text(json, "case") + '\n' +
                            text(json, "kernel") + '\n' + text(json, "plan", "") + '\n' + of +
                            '\n' + document.device;
    (text(json, "sources", "").empty() ? pieces_ : of_others_)[key] = piece(document);
    return true;
  }

  [[nodiscard]] std::string html() const override {
    if (pieces_.empty() && of_others_.empty()) {
      return "";
    }
    std::string html =
        "<p>A bar is as long as the role's share of all samples of waiting warps; colours say what "
        "they waited for.</p>\n<ul class=\"legend\">";
    for (std::size_t i = 0; i < kColourNames.size(); ++i) {
      html += fmt::format("<li><i class=\"c{}\"></i>{}</li>", i, kColourNames[i]);
    }
    html += "</ul>\n" + grid(pieces_);
    if (!of_others_.empty()) {
      html +=
          "<h3>Of other sources than the program's</h3>\n<p>These kernels come from --sources, "
          "such "
          "as one whose cause of slowness was planted on purpose; they are none of the "
          "program's.</p>\n" +
          grid(of_others_);
    }
    return html;
  }

 private:
  static std::string grid(const Pieces& pieces) {
    std::string html = "<div class=\"grid wide\">\n";
    for (const auto& [key, piece] : pieces) {
      html += piece;
    }
    return html + "</div>\n";
  }

  static std::string piece(const Document& document) {
    const Json& json = document.json;
    const std::string name = text(json, "card") + " " + text(json, "case");
    std::string what = text(json, "kernel");
    const std::string sources = text(json, "sources", "");
    for (const std::string& more :
         {text(json, "level", ""), text(json, "plan", ""), values(json, "parameters"),
          sources.empty() ? "" : "sources " + sources, document.origin()}) {
      what += more.empty() ? "" : ", " + more;
    }
    std::string html =
        fmt::format("<figure><figcaption>{} <b>{}</b><small>{}</small></figcaption>\n{}",
                    safe(name), duration(number(json, "seconds")), safe(what), stall_bars(json));
    const std::string verdict = text(json, "verdict", "");
    html += verdict.empty() ? "" : "<p>" + safe(verdict) + "</p>\n";
    html += findings(json);
    std::vector<Row> rows;
    for (const auto& [reason, share] : shares(json, "stalls")) {
      rows.push_back({safe(in_words(reason)), percent(share)});
    }
    std::string more = table("Stalls of " + name, {"warps wait for", "#share"}, rows);
    rows.clear();
    for (const Json& place : json.contains("places") ? list(json, "places") : Json::array()) {
      constexpr std::size_t kMost = 10;
      if (rows.size() < kMost) {
        rows.push_back({safe(text(place, "file", "") + ":" + text(place, "line", "")),
                        safe(text(place, "role", "")), percent(number(place, "share")),
                        chief(shares(place, "stalls"))});
      }
    }
    more += rows.empty() ? ""
                         : table("Places of " + name, {"line", "role", "#share", "wait for"}, rows);
    rows.clear();
    for (const auto& [figure, value] : part(json, "figures").items()) {
      if (value.is_number()) {
        rows.push_back({safe(in_words(figure)), figure_text(figure, value.get<double>())});
      }
    }
    more += rows.empty() ? "" : table("Figures of " + name, {"figure", "#value"}, rows);
    return html + folded("Stalls, places and figures", more) + "</figure>\n";
  }

  static std::string findings(const Json& json) {
    std::string html;
    for (const Json& finding : json.contains("findings") ? list(json, "findings") : Json::array()) {
      html += fmt::format("<li><b>{}</b>", safe(text(finding, "means")));
      std::string seen;
      for (const auto& [figure, value] : part(finding, "seen").items()) {
        seen += fmt::format(
            "{}{} {}", seen.empty() ? "" : ", ", in_words(figure),
            value.is_number() ? figure_text(figure, value.get<double>()) : value.dump());
      }
      html += seen.empty() ? "" : fmt::format(" <small>{}</small>", safe(seen));
      const std::string parameter = text(finding, "parameter", "");
      html += fmt::format(" Try: {}{}</li>\n", safe(text(finding, "try")),
                          parameter.empty() ? "" : " (<code>" + safe(parameter) + "</code>)");
    }
    return html.empty() ? "" : "<ol class=\"findings\">\n" + html + "</ol>\n";
  }

  Pieces pieces_;
  Pieces of_others_;  // of --sources
};

class Gates final : public Section {
 public:
  Gates() : Section("gates", "Gates") {}

  bool take(const Document& document) override {
    if (document.kind != "gates") {
      return false;
    }
    // Where the launcher's choice misses a gate, others are measured at the same level.
    std::map<std::string, std::vector<Kernel>> found;
    for (const Json& level : list(document.json, "levels")) {
      const std::string name = text(level, "level", "");
      std::string where = text(level, "case");
      for (const std::string& more : {name, text(level, "kernel", ""), document.device}) {
        where += more.empty() ? "" : ", " + more;
      }
      const std::string what =
          fmt::format("{}<small>{}</small>", safe_name(text(level, "card")), safe_name(where));
      Kernel kernel;
      for (const Json& gate : list(level, "gates")) {
        const bool passed = truth(gate, "passed");
        const std::string figure = text(gate, "figure");
        const std::string sense = text(gate, "sense") == "at_most" ? "at most " : "at least ";
        kernel.passed = kernel.passed && passed;
        kernel.gates.push_back(
            {what, safe(in_words(figure)), sense + figure_text(figure, number(gate, "limit")),
             figure_text(figure, number(gate, "reading")),
             badge(passed ? "passed" : "missed", passed), safe(text(gate, "model", ""))});
      }
      found[text(level, "card") + '\n' + text(level, "case") + '\n' + name + '\n' + document.device]
          .push_back(std::move(kernel));
    }
    for (auto& [key, kernels] : found) {
      levels_[key] = std::move(kernels);
    }
    return true;
  }

  [[nodiscard]] std::string html() const override {
    std::vector<Row> bad;
    std::vector<Row> rows;
    int passed = 0;
    int all = 0;
    for (const auto& [key, kernels] : levels_) {
      for (const Kernel& kernel : kernels) {
        ++all;
        passed += kernel.passed ? 1 : 0;
        for (const Row& row : kernel.gates) {
          rows.push_back(row);
          if (row[4] == badge("missed", false)) {
            bad.push_back(row);
          }
        }
      }
    }
    const std::vector<std::string> columns = {"kernel",   "figure", "#limit",
                                              "#reading", "",       "why this limit"};
    std::string html;
    if (!rows.empty()) {
      html = fmt::format(
          "<p>{} of {} kernels, counted once for each case and level, reach all of their gates. "
          "One that misses a gate is not chosen where another is on record as reaching its own in "
          "no more time.</p>\n",
          passed, all);
      html += bad.empty() ? "" : table("Gates that were missed", columns, bad);
      html += folded(fmt::format("All {} gates", rows.size()), table("All gates", columns, rows));
    }
    return html;
  }

 private:
  struct Kernel {
    bool passed = true;
    std::vector<Row> gates;
  };
  std::map<std::string, std::vector<Kernel>> levels_;  // of a card, case, level and device
};

class Comparisons final : public Section {
 public:
  Comparisons() : Section("compare", "Comparisons") {}

  bool take(const Document& document) override {
    if (document.kind != "compare") {
      return false;
    }
    const Json& json = document.json;
    const auto side = [&](const char* key) {
      const std::string words = text(part(json, key), "what", "");
      return words.empty() ? values(json, key) : words;
    };
    const std::string verdict = text(json, "verdict");
    const Json interval = json.value("interval", Json());
    std::string range;
    if (interval.is_array() && interval.size() == 2 && interval[0].is_number() &&
        interval[1].is_number()) {
      range = fmt::format("{:.3f} to {:.3f}", interval[0].get<double>(), interval[1].get<double>());
    }
    std::string moved;
    constexpr int kMost = 5;
    int shown = 0;
    for (const Json& counter : json.contains("counters") ? list(json, "counters") : Json::array()) {
      if (shown++ < kMost) {
        const Json change = counter.value("change", Json());
        moved += fmt::format(
            "{}{} {}", moved.empty() ? "" : "<br>", safe_name(text(counter, "name")),
            change.is_number() ? fmt::format("{:+.1f}%", 100 * change.get<double>()) : "new");
      }
    }
    const std::string card = text(json, "card", "");
    const std::string problem = text(json, "case", "");
    rows_[card + '\n' + problem + '\n' + document.device + '\n' + side("a") + '\n' + side("b")] = {
        safe_name(card) + "<small>" +
            safe_name(problem + (problem.empty() ? "" : ", ") + document.device) + "</small>",
        safe(side("a")),
        safe(side("b")),
        fmt::format("<span class=\"badge {}\">{}</span>",
                    verdict == "FASTER"   ? "good"
                    : verdict == "SLOWER" ? "bad"
                                          : "",
                    safe(verdict)),
        fmt::format("{:.3f}", number(json, "ratio")),
        range,
        safe(text(json, "rounds", "-")),
        moved};
    return true;
  }

  [[nodiscard]] std::string html() const override {
    return table(
        "Comparisons; the verdict is of B against A",
        {"card", "A", "B", "B is", "#ratio", "#interval", "#rounds", "counters that moved most"},
        rows_);
  }

 private:
  std::map<std::string, Row> rows_;
};

}  // namespace

void add_profile_sections(Sections& sections) {
  sections.push_back(std::make_unique<Profiles>());
  sections.push_back(std::make_unique<Gates>());
  sections.push_back(std::make_unique<Comparisons>());
}

}  // namespace fovea::lab::report
