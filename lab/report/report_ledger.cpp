// Ledgers of evolve: the tree of candidates, and what became of them.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/quantile.hpp"
#include "lab/report/report_document.hpp"
#include "lab/report/report_svg.hpp"

namespace fovea::lab::report {
namespace {

struct Candidate {
  int number = 0, generation = 0;
  std::vector<int> parents;
  std::string change, reason, failed_at, why;
  bool valid = false, failed = false, kept = false;  // neither of the first two: it never ran
  double speed_up = 0.0;                             // 0: it was not timed
  double cost = 0.0;

  [[nodiscard]] bool timed() const { return !failed && speed_up > 0; }
  [[nodiscard]] std::string what() const {
    return !change.empty() ? change : number == 0 ? "the start" : "no change";
  }
  [[nodiscard]] std::string told() const {
    std::string words = fmt::format("{}. {}", number, what());
    words += failed         ? ": invalid at " + failed_at + (why.empty() ? "" : ", " + why)
             : speed_up > 0 ? fmt::format(": {:.3f}x", speed_up)
             : valid        ? ": valid, not timed"
                            : ": not judged";
    words += kept ? ", kept" : "";
    return words + (reason.empty() ? "" : ". Proposed because: " + reason);
  }
};

/// "valid": null.
bool was_not_judged(const Json& json) {
  return json.contains("valid") && json["valid"].is_null();
}

bool is_valid(const Json& json) {
  return !was_not_judged(json) && truth(json, "valid");
}

Candidate candidate_of(const Json& json) {
  Candidate one;
  one.number = integer(json, "number");
  one.generation = integer(json, "generation");
  for (const Json& parent : json.contains("parents") ? json["parents"] : Json::array()) {
    if (parent.is_number_integer()) {
      one.parents.push_back(parent.get<int>());
    }
  }
  one.change = values(json, "change");
  one.change = one.change.empty() ? text(json, "change", "") : one.change;
  if (json.contains("source_changed") && json["source_changed"].is_boolean() &&
      json["source_changed"].get<bool>()) {
    one.change += one.change.empty() ? "other source" : ", other source";
  }
  one.reason = text(json, "reason", "");
  one.failed_at = text(json, "failed_at", "an unnamed gate");
  one.why = text(json, "why", "");
  one.valid = is_valid(json);
  one.failed = !one.valid && !was_not_judged(json);
  one.kept = json.contains("kept") && truth(json, "kept");
  one.speed_up = number(json, "speed_up", 0);
  one.cost = number(json, "cost_seconds", 0);
  return one;
}

/// Slower than the baseline, like it, faster: five classes of colour.
const char* class_of(const Candidate& one) {
  constexpr double kKept = 0.03, kSame = 0.01;
  const double gain = one.speed_up - 1;
  return one.failed          ? "invalid"
         : one.speed_up <= 0 ? "untimed"
         : gain >= kKept     ? "faster"
         : gain > kSame      ? "bit-faster"
         : gain >= -kSame    ? "alike"
         : gain > -4 * kKept ? "bit-slower"
                             : "slower";
}

/// What a run found.
struct Best {
  const Candidate* candidate = nullptr;
  double again = 0.0;  // its speed-up when it was measured once more; 0: it was not
};

/// The one that the run names; before its end, the fastest that was kept and did not fail when it
/// was measured again. The fastest of all is a lucky one.
Best best_of(const std::vector<Candidate>& all, const Json& ledger) {
  std::map<int, double> again;
  for (const Json& one : list(ledger, "confirmations")) {
    again[integer(one, "number")] = is_valid(one) ? number(one, "speed_up", 0) : -1;
  }
  const auto again_of = [&](const Candidate& one) {
    const auto found = again.find(one.number);
    return found == again.end() ? 0.0 : found->second;
  };
  const Json& end = part(ledger, "end");
  // One that was interrupted did not come to name it.
  const bool named = end.contains("best") && text(end, "why", "") != "interrupted";
  const int name = named ? integer(end, "best") : 0;
  Best best;
  for (const Candidate& one : all) {
    const bool better = best.candidate == nullptr || best.candidate->speed_up < one.speed_up;
    if (one.timed() && (named ? one.number == name : one.kept && again_of(one) >= 0 && better)) {
      best = {&one, std::max(again_of(one), 0.0)};
    }
  }
  return best;
}

/// "built-in", or the program with its arguments.
std::string proposer(const Json& run) {
  std::vector<std::string> words;
  for (const Json& word : run.value("proposer", Json::array())) {
    words.push_back(word.is_string() ? word.get<std::string>() : "?");
  }
  return fmt::format("{}", fmt::join(words, " "));
}

class Ledgers final : public Section {
 public:
  Ledgers() : Section("evolve", "Evolution") {}

  bool take(const Document& document) override {
    if (document.kind != "ledger") {
      return false;
    }
    const Json& run = document.json["run"];
    const std::string name = text(run, "card") + " " + text(run, "case", "") +
                             (text(run, "level", "").empty() ? "" : ", " + text(run, "level"));
    const std::string key = name + '\n' + document.device + '\n' + text(run, "population", "") +
                            '\n' + proposer(run) + '\n' + run.value("problem", Json()).dump() +
                            run.value("start", Json()).dump();
    pieces_[key] = piece(name, document);
    return true;
  }

  [[nodiscard]] std::string html() const override {
    std::string html;
    for (const auto& [key, piece] : pieces_) {
      html += piece;
    }
    return html.empty()
               ? ""
               : "<p>A dot is a candidate, as far to the right as it is fast, with lines from its "
                 "parents; a "
                 "row is a generation, and the thick line leads to the best. What a candidate is "
                 "and "
                 "what became of it is under the pointer and in the table.</p>\n"
                 "<ul class=\"legend\"><li><i class=\"faster\"></i>at least 3% faster</li>"
                 "<li><i class=\"bit-faster\"></i>faster</li><li><i class=\"alike\"></i>within 1%"
                 "</li><li><i class=\"bit-slower\"></i>slower</li><li><i class=\"slower\"></i>12% "
                 "slower or more</li><li><i class=\"invalid\"></i>invalid</li><li><i "
                 "class=\"kept\"></i>kept</li></ul>\n<div class=\"grid wide\">\n" +
                     html + "</div>\n";
  }

 private:
  static std::string piece(const std::string& name, const Document& document) {
    const Json& run = document.json["run"];
    std::vector<Candidate> all;
    for (const Json& one : list(document.json, "candidates")) {
      all.push_back(candidate_of(one));
    }
    std::string html = fmt::format(
        "<figure><figcaption>{}<small>{} population, {} proposer, seed {}, "
        "{}</small></figcaption>\n",
        safe(name), safe(text(run, "population", "-")), safe(proposer(run)),
        safe(text(run, "seed", "-")), safe(document.origin()));
    const Best best = best_of(all, document.json);
    html += summary(all, best, document.json);
    if (!all.empty()) {
      html += tree(name, all, best.candidate);
    }
    std::vector<Row> rows;
    for (const Candidate& one : all) {
      std::string parents;
      for (const int parent : one.parents) {
        parents += fmt::format("{}{}", parents.empty() ? "" : ", ", parent);
      }
      rows.push_back({fmt::format("{}", one.number), fmt::format("{}", one.generation), parents,
                      safe(one.change),
                      one.failed  ? safe("invalid at " + one.failed_at + ": " + one.why)
                      : one.kept  ? "kept"
                      : one.valid ? "valid"
                                  : "not judged",
                      one.speed_up > 0 ? fmt::format("{:.3f}x", one.speed_up) : "-",
                      duration(one.cost), safe(one.reason)});
    }
    return html +
           folded(fmt::format("All {} candidates", all.size()),
                  table("Candidates of " + name,
                        {"#number", "#generation", "parents", "change", "outcome", "#speed-up",
                         "#cost", "proposed because"},
                        rows)) +
           "</figure>\n";
  }

  static std::string summary(const std::vector<Candidate>& all, const Best& best,
                             const Json& ledger) {
    std::vector<double> speeds;
    std::map<std::string, int> failed;
    int valid = 0;
    int not_judged = 0;
    for (const Candidate& one : all) {
      valid += one.valid ? 1 : 0;
      not_judged += one.valid || one.failed ? 0 : 1;
      failed[one.failed_at] += one.failed ? 1 : 0;
      if (one.timed()) {
        speeds.push_back(one.speed_up);
      }
    }
    std::string html =
        fmt::format("<p>{} candidates, {} valid", all.size(),
                    percent(all.empty() ? 0 : valid / static_cast<double>(all.size())));
    html += not_judged == 0 ? "" : fmt::format(", {} not judged", not_judged);
    html += speeds.empty() ? "" : fmt::format("; speed-up: median {:.3f}x", quantile(speeds, 0.5));
    if (const Candidate* const one = best.candidate; one != nullptr && best.again > 0) {
      html += fmt::format(
          ", best <b>{:.3f}x</b> when number {} ({}) was measured again, {:.3f}x before",
          best.again, one->number, safe(one->what()), one->speed_up);
    } else if (one != nullptr) {
      html += fmt::format(", best <b>{:.3f}x</b> (number {}: {})", one->speed_up, one->number,
                          safe(one->what()));
    }
    const Json& base = part(ledger["run"], "baseline");
    const double seconds = number(base, "seconds", 0);
    std::string baseline = text(base, "kernel", "-");
    for (const std::string& more :
         {values(base, "parameters"), seconds > 0 ? "in " + duration(seconds) : ""}) {
      baseline += more.empty() ? "" : ", " + more;
    }
    html += fmt::format(
        ". Baseline: {}. Cost: {}. {}</p>\n", safe(baseline),
        duration(number(ledger, "cost_seconds")),
        ledger.contains("end")
            ? safe("It ended: " + text(ledger["end"], "words",
                                       text(ledger["end"], "why", "no reason is told").c_str()))
            : "The run has no end: it was interrupted, or still runs.");
    std::string why;
    for (const auto& [gate, count] : failed) {
      why += count > 0 ? fmt::format("{}{} at {}", why.empty() ? "" : ", ", count, safe(gate)) : "";
    }
    return html + (why.empty() ? "" : "<p>Invalid: " + why + ".</p>\n");
  }

  using Generations = std::map<int, std::vector<const Candidate*>>;

  static std::string tree(const std::string& name, const std::vector<Candidate>& all,
                          const Candidate* best) {
    Generations rows;
    double slowest = 0.95;
    double fastest = 1.05;
    for (const Candidate& one : all) {
      rows[one.generation].push_back(&one);
      if (one.timed()) {
        constexpr double kSlowestShown = 0.7;  // slower ones lie at the edge
        slowest = std::min(slowest, std::max(one.speed_up, kSlowestShown));
        fastest = std::max(fastest, one.speed_up);
      }
    }
    const double step = std::clamp(640.0 / static_cast<double>(rows.size()), 9.0, 30.0);
    const Point size{420, kTop + step * static_cast<double>(rows.size()) + 6};
    constexpr double kLabel = 46;  // behind the fastest dot, in the larger type of phones
    const Scale x(slowest, fastest, kValidFrom + 8, size.x - kLabel, false);
    const std::map<int, Point> places = places_of(rows, x, step);
    const Point root{x(1), 32};
    Svg svg(
        size, "Candidates of " + name,
        fmt::format("{} candidates in {} generations{}. The table below holds them all.",
                    all.size(), rows.size(),
                    best == nullptr ? "" : fmt::format("; the best is number {}", best->number)));
    for (const double tick : x.ticks(44)) {
      svg.line({{x(tick), 22}, {x(tick), size.y}}, "axis");
      svg.text({x(tick), 16}, fmt::format("{:.4g}x", tick), "tick", "middle");
    }
    svg.text({kInvalidTo, 16}, "invalid", "tick", "end");
    svg.text({4, 16}, "gen.", "tick");
    std::set<int> line = best == nullptr ? std::set<int>{} : std::set<int>{best->number};
    for (auto one = all.rbegin(); one != all.rend(); ++one) {  // parents came before
      if (line.contains(one->number)) {
        line.insert(one->parents.begin(), one->parents.end());
      }
    }
    for (const bool of_best : {false, true}) {  // over the others
      for (const Candidate& one : all) {
        if (line.contains(one.number) == of_best) {
          add_edges(svg, one, places, root, of_best ? "edge best" : "edge");
        }
      }
    }
    const double radius = std::clamp(step / 2 - 1, 3.5, 5.5);
    svg.dot(root, radius, "node alike kept", "the baseline: 1x");
    double free_from = 0;  // for the next number of a generation
    for (const auto& [generation, members] : rows) {
      if (const double y = places.at(members.front()->number).y; y >= free_from) {
        svg.text({4, y + 4}, fmt::format("{}", generation), "tick");
        free_from = y + 14;
      }
      for (const Candidate* one : members) {
        svg.keep_free(places.at(one->number), radius);
        svg.dot(places.at(one->number), one->kept ? radius : radius * 0.8,
                fmt::format("node {}{}", class_of(*one), one->kept ? " kept" : ""), one->told());
      }
    }
    for (const Candidate& one : all) {
      if (one.timed() && (one.kept || &one == best)) {
        svg.label(places.at(one.number), fmt::format("{:.2f}x", one.speed_up), "name");
      }
    }
    return svg.str();
  }

  /// A row per generation: invalid candidates side by side on the left, others by their speed.
  static std::map<int, Point> places_of(const Generations& rows, const Scale& x, double step) {
    std::map<int, Point> places;
    double y = kTop - step / 2;
    for (const auto& [generation, members] : rows) {
      y += step;
      std::vector<const Candidate*> valid;
      std::vector<const Candidate*> invalid;
      for (const Candidate* one : members) {
        (one->failed ? invalid : valid).push_back(one);
      }
      double apart =
          std::min(11.0, (kInvalidTo - kInvalidFrom) / (static_cast<double>(invalid.size()) + 1));
      for (std::size_t i = 0; i < invalid.size(); ++i) {
        places[invalid[i]->number] = {kInvalidTo - 6 - apart * static_cast<double>(i), y};
      }
      const auto wanted = [&](const Candidate* one) {
        return x(one->speed_up > 0 ? std::max(x.low(), one->speed_up) : 1);
      };
      std::ranges::sort(valid, {},
                        [&](const Candidate* one) { return std::pair(wanted(one), one->number); });
      apart = std::min(9.0, (x(x.high()) - kValidFrom) / (static_cast<double>(valid.size()) + 1));
      double right = x(x.high()) + apart;  // dots that would overlap move to the left
      for (auto one = valid.rbegin(); one != valid.rend(); ++one) {
        right = std::min(wanted(*one), right - apart);
        places[(*one)->number] = {right, y};
      }
    }
    return places;
  }

  static void add_edges(Svg& svg, const Candidate& one, const std::map<int, Point>& places,
                        Point root, const char* kind) {
    const Point to = places.at(one.number);
    bool has_parent = false;
    for (const int parent : one.parents) {
      // A parent may be of the same generation: then it is in the same row.
      if (const auto from = places.find(parent); from != places.end() && parent != one.number) {
        svg.line({from->second, to}, kind);
        has_parent = true;
      }
    }
    if (!has_parent) {
      svg.line({root, to}, kind);
    }
  }

  static constexpr double kTop = 46, kInvalidFrom = 30, kInvalidTo = 112, kValidFrom = 122;
  Pieces pieces_;
};

}  // namespace

void add_ledger_section(Sections& sections) {
  sections.push_back(std::make_unique<Ledgers>());
}

}  // namespace fovea::lab::report
