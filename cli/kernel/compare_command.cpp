// `fovea kernel compare`: compares two kernels, sampled alternately on one GPU, or two saved files.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/job_report.hpp"
#include "cli/kernel/options.hpp"
#include "cli/terminal.hpp"
#include "cli/time_gate.hpp"
#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/measure/compare.hpp"
#include "lab/measure/compare_files.hpp"
#include "lab/system/process.hpp"

namespace fovea::cli::kernel {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kProfileSeconds = 600;
constexpr std::size_t kMaxPrintedFigures = 12;

struct CompareOptions : CardOptions {
  int gpu = 0;
  lab::CaseSpec launch;  // launch of side A
  std::string program;   // program of side A; empty: this program
  std::string with_program;
  std::string with_plan;
  std::string with_level;
  std::string with_sources;
  std::optional<Parameters> with_parameters;
  bool profile = false;
  double threshold_percent = 0.0;  // threshold in percent; 0: the default
  int most_pairs = lab::PairLimits{}.limit;
  std::string csv;
  bool gate = false;

  [[nodiscard]] bool has_sides() const {
    return !with_program.empty() || !with_plan.empty() || !with_level.empty() ||
           !with_sources.empty() || with_parameters.has_value();
  }
};

/// One side of a comparison: a program, and the options that select the launch.
struct Side {
  std::string letter;
  std::string program;
  std::string what;  // for messages, such as "this program, level wmma"
  /// Arguments: card, case, GPU, level, plan, sources, parameters.
  std::vector<std::string> selection;
};

Side make_side(const CompareOptions& options, bool is_b) {
  const lab::CaseSpec& launch = options.launch;
  Side side;
  side.letter = is_b ? "B" : "A";
  const auto select_value = [&](const std::string& value_a, const std::string& value_b) {
    return is_b && !value_b.empty() ? value_b : value_a;
  };
  const std::string program = select_value(options.program, options.with_program);
  side.program = program.empty()                          ? current_program()
                 : program.find('/') == std::string::npos ? "./" + program
                                                          : program;
  side.what = program.empty() ? "this program" : program;
  side.selection = {options.cards.front(), "--gpu", std::to_string(options.gpu)};
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) {
      side.selection.insert(side.selection.end(), {option, value});
      side.what += fmt::format(", {} {}", option.substr(2), value);
    }
  };
  if (!launch.case_name.empty()) {
    side.selection.insert(side.selection.end(), {"--case", launch.case_name});
  }
  // A level or plan of B replaces both the level and the plan of A.
  const bool has_other_level = is_b && !options.with_level.empty();
  const bool has_other_plan = is_b && !options.with_plan.empty();
  add("--level",
      has_other_plan ? options.with_level : select_value(launch.level, options.with_level));
  add("--plan", has_other_level ? options.with_plan : select_value(launch.plan, options.with_plan));
  add("--sources", select_value(launch.sources, options.with_sources));
  const auto& parameters =
      is_b && options.with_parameters.has_value() ? *options.with_parameters : launch.changes;
  add("--parameters", parameters.empty() ? "" : Json(parameters).dump());
  return side;
}

std::vector<std::string> side_command(const Side& side, const std::string& command,
                                      const std::vector<std::string>& options) {
  std::vector<std::string> words = {side.program, "kernel", command};
  words.insert(words.end(), side.selection.begin(), side.selection.end());
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// Profiles a side with its own program.
std::string profile_side(const Side& side) {
  const lab::ProcessResult result =
      lab::run_process(side_command(side, "profile", {"--json"}),
                       {.max_seconds = kProfileSeconds, .stop = Interruption::flag()});
  if (result.exit_code != 0) {
    throw Error(fmt::format(
        "{} ({}) could not be profiled: {}", side.letter, side.what,
        result.timed_out ? fmt::format("it took more than {} s", kProfileSeconds) : result.errors));
  }
  return result.output;
}

/// Returns "+12.5%", or "new" when the figure was 0 before.
std::string change_text(const lab::ChangedFigure& figure) {
  return figure.a == 0 ? "new" : fmt::format("{:+.1f}%", 100 * (figure.b / figure.a - 1));
}

Json to_json(const lab::SpeedVerdict& verdict) {
  return {{"verdict", to_string(verdict.speed)},
          {"ratio", verdict.ratio},
          {"interval", {verdict.low, verdict.high}}};
}

Json to_json(const std::vector<lab::ChangedFigure>& figures) {
  Json json = Json::array();
  for (const lab::ChangedFigure& figure : figures) {
    json.push_back({{"name", figure.name},
                    {"a", figure.a},
                    {"b", figure.b},
                    {"change", figure.a == 0 ? Json() : Json(figure.b / figure.a - 1)},
                    {"work", figure.work}});
  }
  return json;
}

void print_figures(const std::vector<lab::ChangedFigure>& figures) {
  for (const bool work : {true, false}) {
    std::size_t printed = 0;
    for (const lab::ChangedFigure& figure : figures) {
      if (figure.work != work || ++printed > kMaxPrintedFigures) {
        continue;
      }
      if (printed == 1) {
        std::cout << (work ? "differences in what the kernel does:\n"
                           : "differences that follow:\n");
      }
      std::cout << fmt::format("  {:<32} {:>14.6g} {:>14.6g} {:>10}\n", io::printable(figure.name),
                               figure.a, figure.b, change_text(figure));
    }
    if (printed > kMaxPrintedFigures) {
      std::cout << fmt::format("  and {} more, which --csv and --json list\n",
                               printed - kMaxPrintedFigures);
    }
  }
  if (figures.empty()) {
    std::cout
        << "no figure of the profiles differs by more than between two launches of one kernel\n";
  }
}

/// A CSV table with the columns name, A, B, B / A and verdict.
class Csv {
 public:
  void add(const std::string& name, double a, double b, const std::string& verdict) {
    std::string quoted;
    for (const char letter : name) {
      quoted += letter == '"' ? "\"\"" : std::string(1, letter);
    }
    text_ += fmt::format("\"{}\",{},{},{},{}\n", quoted, a, b,
                         a == 0 ? "" : fmt::format("{}", b / a), verdict);
  }
  void add(const std::vector<lab::ChangedFigure>& figures) {
    for (const lab::ChangedFigure& figure : figures) {
      add(figure.name, figure.a, figure.b, "MOVED");
    }
  }
  void write(const std::string& file) const {
    if (!file.empty()) {
      io::write_file_atomically(file, text_);
    }
  }

 private:
  std::string text_ = "name,a,b,ratio,verdict\n";
};

double selected_threshold(const CompareOptions& options, double default_threshold) {
  return options.threshold_percent > 0 ? options.threshold_percent / 100 : default_threshold;
}

int exit_code(const CompareOptions& options, lab::Speed speed) {
  return options.gate && speed == lab::Speed::kSlower ? kFailed : kDone;
}

lab::Speed time_speed(const lab::ChangedTime& time) {
  return time.verdict.speed;
}

int compare_files(const CompareOptions& options) {
  const std::string& a = options.cards[0];
  const std::string& b = options.cards[1];
  const std::string text_a = io::read_small_file(a);
  const std::string text_b = io::read_small_file(b);
  const lab::FileComparison result =
      lab::compare_texts(a, text_a, b, text_b, selected_threshold(options, lab::kFilesThreshold));
  Csv csv;
  Json times = Json::array();
  for (const lab::ChangedTime& time : result.times) {
    const std::string verdict(to_string(time.verdict.speed));
    if (options.json.prints_text() && time.verdict.speed != lab::Speed::kSame) {
      std::cout << fmt::format("{:<9} {:.3f}: {:.4f} ms to {:.4f} ms, {}\n", verdict,
                               time.verdict.ratio, time.a * 1e3, time.b * 1e3,
                               io::printable(time.name));
    }
    csv.add(time.name, time.a, time.b, verdict);
    times.push_back({{"name", time.name}, {"a", time.a}, {"b", time.b}});
    times.back().update(to_json(time.verdict));
  }
  csv.add(result.figures);
  if (options.json.prints_text()) {
    if (result.is_profile) {
      print_figures(result.figures);
    }
    for (const std::string& name : result.unmatched) {
      std::cout << io::printable(name) << '\n';
    }
    std::cout << to_string(result.speed) << ':';
    for (const lab::Speed speed :
         {lab::Speed::kSlower, lab::Speed::kAmbiguous, lab::Speed::kFaster, lab::Speed::kSame}) {
      std::cout << fmt::format(" {} {}{}", std::ranges::count(result.times, speed, time_speed),
                               to_string(speed), speed == lab::Speed::kSame ? "\n" : ",");
    }
  }
  csv.write(options.csv);
  Json json = {{"machine", Json::parse(result.machine)},
               {"a", {{"what", a}}},
               {"b", {{"what", b}}},
               {"verdict", to_string(result.speed)},
               {"ratio", result.ratio},
               {"times", std::move(times)},
               {"counters", to_json(result.figures)},
               {"unmatched", result.unmatched}};
  int code = exit_code(options, result.speed);
  if (options.gate && !result.is_profile) {
    // Bench reports also contain times of peers, which show whether the machine was in the same
    // state.
    const std::vector<lab::TimeChange> changes = lab::compare_times(
        lab::timed_figures(text_b, b), lab::earlier_figures(a, lab::gpu_of_result(text_b, b)));
    json["changes"] = Json::parse(lab::to_json(changes));
    code = pass_time_gate(changes, a, options.json.prints_text()) ? kDone : kFailed;
  }
  options.json.write(json);
  return code;
}

void print_side(const Side& side, const lab::StepSide& measured) {
  std::cout << fmt::format("{}: {:.4f} ms +- {:.1f}%, {} MHz, {:.0f} W: {}\n", side.letter,
                           measured.seconds * 1e3, 50 * measured.spread / measured.seconds,
                           measured.sm_mhz, measured.watts, io::printable(side.what));
}

Json to_json(const Side& side, const lab::StepSide& measured) {
  Json ready_json = Json::parse(measured.ready);
  ready_json.erase("machine");
  return {{"what", side.what},         {"seconds", measured.seconds},
          {"spread", measured.spread}, {"sm_mhz", measured.sm_mhz},
          {"watts", measured.watts},   {"ready", std::move(ready_json)}};
}

int compare_sides(const CompareOptions& options) {
  const Side a = make_side(options, false);
  const Side b = make_side(options, true);
  lab::StepOptions steps;
  steps.pair_limits.threshold = selected_threshold(options, lab::kSamplesThreshold);
  steps.pair_limits.limit = options.most_pairs;
  steps.seed = options.launch.seed;
  const auto program = [](const Side& side) {
    return lab::StepProgram{fmt::format("{} ({})", side.letter, side.what),
                            side_command(side, "run", {"--steps"})};
  };
  const lab::StepComparison result = lab::compare_steps(program(a), program(b), steps);
  const lab::SpeedVerdict& verdict = result.judged.verdict;
  const std::string speed(to_string(verdict.speed));
  const Json ready_json = Json::parse(result.a.ready);
  if (options.json.prints_text()) {
    print_side(a, result.a);
    print_side(b, result.b);
    std::cout
        << fmt::format(
               "{}: B takes {:.4f} times as long as A ({:.4f} to {:.4f} with 99.9% confidence, "
               "{} pairs of samples{})\n",
               speed, verdict.ratio, verdict.low, verdict.high, result.judged.pairs,
               result.judged.dropped > 0
                   ? fmt::format(", {} dropped because the GPU was slowed", result.judged.dropped)
                   : "")
        << std::flush;
  }
  Csv csv;
  csv.add("seconds", result.a.seconds, result.b.seconds, speed);
  Json json = {{"machine", ready_json.value("machine", Json())},
               {"card", ready_json.value("card", Json())},
               {"case", ready_json.value("case", Json())},
               {"a", to_json(a, result.a)},
               {"b", to_json(b, result.b)}};
  json.update(to_json(verdict));
  json["threshold"] = steps.pair_limits.threshold;
  json["rounds"] = result.judged.pairs;
  json["dropped"] = result.judged.dropped;
  json["counters"] = Json::array();
  int code = exit_code(options, verdict.speed);
  if (options.profile) {
    const Interruption interruption;
    try {
      const lab::FileComparison comparison = lab::compare_texts(
          "A's profile", profile_side(a), "B's profile", profile_side(b), lab::kFilesThreshold);
      if (options.json.prints_text()) {
        print_figures(comparison.figures);
      }
      csv.add(comparison.figures);
      json["counters"] = to_json(comparison.figures);
    } catch (const Error& error) {  // the verdict is written nevertheless
      rethrow_unless_finding(error);
      say_error(error.what(), "");
      json["counters_missing"] = error.what();
      code = kFailed;
    }
  }
  csv.write(options.csv);
  options.json.write(json);
  return code;
}

int run_compare(const CompareOptions& options) {
  const lab::CaseSpec& launch = options.launch;
  if (options.cards.size() == 2 && !options.has_sides() && !options.profile) {
    const bool selects_launch = !options.program.empty() || !launch.level.empty() ||
                                !launch.plan.empty() || !launch.sources.empty() ||
                                !launch.changes.empty() || !launch.case_name.empty();
    if (selects_launch) {
      throw Error(
          "options that choose a launch do not apply to two files: omit --program, --level, "
          "--plan, --sources, --parameters, --case and --problem");
    }
    return compare_files(options);
  }
  if (options.cards.size() != 1) {
    throw Error("this command takes one card, or two files and no --with option");
  }
  const lab::Card& card = *cards_with_level(options.cards, launch.case_name, launch.level).front();
  if (!options.with_level.empty()) {
    lab::require_level(card, options.with_level);
  }
  if (!options.has_sides()) {
    throw Error(
        "B must differ from A: give --with-program, --with-level, --with-plan, --with-sources "
        "or --with-parameters");
  }
  return compare_sides(options);
}

void add_sides(CLI::App& command, CompareOptions& options) {
  add_text(command, "--program", "PROGRAM", options.program,
           "The program that runs A (default: this program)");
  add_text(command, "--with-program", "PROGRAM", options.with_program, "The program that runs B");
  add_text(command, "--with-level", "LEVEL", options.with_level, "B's level");
  add_text(command, "--with-plan", "PLAN", options.with_plan, "B's plan");
  add_text(command, "--with-sources", "FOLDER", options.with_sources, "B's sources");
  add_json_parameters(
      command, "--with-parameters", "B's tuning parameters, as JSON",
      [&options](Parameters values) { options.with_parameters = std::move(values); });
}

}  // namespace

void add_compare(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "compare", "Sample two sides alternately, and report whether B is faster than A",
      run_compare);
  command.get_option("CARD")->description("A card; or two saved files, profiles or bench reports");
  add_launch(command, options.gpu, options.launch);
  add_sides(command, options);
  add_seed(command, options.launch.seed);
  add_real(command, "--margin", "PERCENT", {0, 100}, options.threshold_percent,
           "Smallest difference that counts (0: 1% for samples, 3% for files; at least 5% for "
           "profiles, which time one launch)");
  add_integer(command, "--most-pairs", {16, 100000}, options.most_pairs,
              "Maximum number of pairs of samples, after which an ambiguous comparison ends");
  begin_group(command, kReportGroup);
  add_flag(command, "--profile", options.profile,
           "Also run ncu on both sides, and list the figures that changed");
  add_output_text(command, "--csv", "FILE", options.csv, OutputKind::kTable,
                  "Write the compared figures to FILE, one per row");
  add_flag(command, "--gate", options.gate,
           "Exit with 1 when B is SLOWER, or for two bench reports, when a time of B fails the "
           "gate of `fovea kernel bench --against A`");
  explain(command,
          {"Options that are not given for B have the values of A. The sides run as two programs "
           "on one GPU, never at the same time, in random order. B is FASTER or SLOWER when the "
           "whole 99.9% interval of the ratio is beyond the threshold, SAME when it is within, "
           "else AMBIGUOUS.",
           "Without --gate, the exit code is 0 whatever the verdict."},
          {"fovea kernel compare attention --level mma --with-level wgmma",
           "fovea kernel compare gemm_out --with-program ../other/fovea --gate",
           "fovea kernel compare gemm_out --with-sources ../other --profile",
           "fovea kernel compare before.json after.json"});
}

}  // namespace fovea::cli::kernel
