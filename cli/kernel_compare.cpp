// `fovea kernel compare`: two sides in turns on one GPU, or two saved files.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "cli/time_gate.hpp"
#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "lab/measure/compare.hpp"
#include "lab/measure/compare_files.hpp"
#include "lab/system/process.hpp"

namespace fovea::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kProfileSeconds = 600;
constexpr std::size_t kPrintedFigures = 12;

/// One side: the program and what it is told to run.
struct Side {
  std::string letter;
  std::string program;
  std::string what;                    // "this program, level wmma"
  std::vector<std::string> selection;  // card, case, GPU, level, plan, sources, parameters
};

Side side_of(const KernelArguments& arguments, bool is_b) {
  const CompareArguments& compare = arguments.compare;
  Side side;
  side.letter = is_b ? "B" : "A";
  const auto chosen = [&](const std::string& ours, const std::string& theirs) {
    return is_b && !theirs.empty() ? theirs : ours;
  };
  const std::string program = chosen(compare.program, compare.with_program);
  side.program = program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                 : program.find('/') == std::string::npos ? "./" + program
                                                          : program;
  side.what = program.empty() ? "this program" : program;
  side.selection = {arguments.names.front(), "--gpu", std::to_string(arguments.device)};
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) {
      side.selection.insert(side.selection.end(), {option, value});
      side.what += fmt::format(", {} {}", option.substr(2), value);
    }
  };
  if (!arguments.check.only_case.empty()) {
    side.selection.insert(side.selection.end(), {"--case", arguments.check.only_case});
  }
  // B's own level or plan takes the place of what chooses A's.
  const bool other_level = is_b && !compare.with_level.empty();
  const bool other_plan = is_b && !compare.with_plan.empty();
  add("--level", other_plan ? compare.with_level : chosen(arguments.level, compare.with_level));
  add("--plan", other_level ? compare.with_plan : chosen(arguments.plan, compare.with_plan));
  add("--sources", chosen(arguments.sources, compare.with_sources));
  const auto& parameters =
      is_b && compare.with_parameters.has_value() ? *compare.with_parameters : arguments.parameters;
  add("--parameters", parameters.empty() ? "" : Json(parameters).dump());
  return side;
}

std::vector<std::string> command_of(const Side& side, const std::string& command,
                                    const std::vector<std::string>& options) {
  std::vector<std::string> all = {side.program, "kernel", command};
  all.insert(all.end(), side.selection.begin(), side.selection.end());
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

/// The side's own program profiles it.
std::string profile_of(const Side& side) {
  const lab::ProcessResult result =
      lab::run_process(command_of(side, "profile", {"--json"}),
                       {.most_seconds = kProfileSeconds, .stop = Interruption::flag()});
  if (result.exit_code != 0) {
    throw Error(fmt::format(
        "{} ({}) could not be profiled: {}", side.letter, side.what,
        result.timed_out ? fmt::format("it took more than {} s", kProfileSeconds) : result.errors));
  }
  return result.output;
}

/// "+12.5%"; where a figure was nothing before, there is no such number.
std::string change_of(const lab::MovedFigure& figure) {
  return figure.a == 0 ? "new" : fmt::format("{:+.1f}%", 100 * (figure.b / figure.a - 1));
}

Json to_json(const lab::SpeedVerdict& verdict) {
  return {{"verdict", to_string(verdict.speed)},
          {"ratio", verdict.ratio},
          {"interval", {verdict.low, verdict.high}}};
}

Json to_json(const std::vector<lab::MovedFigure>& figures) {
  Json json = Json::array();
  for (const lab::MovedFigure& figure : figures) {
    json.push_back({{"name", figure.name},
                    {"a", figure.a},
                    {"b", figure.b},
                    {"change", figure.a == 0 ? Json() : Json(figure.b / figure.a - 1)},
                    {"work", figure.work}});
  }
  return json;
}

void print_figures(const std::vector<lab::MovedFigure>& figures) {
  for (const bool work : {true, false}) {
    std::size_t printed = 0;
    for (const lab::MovedFigure& figure : figures) {
      if (figure.work != work || ++printed > kPrintedFigures) {
        continue;
      }
      if (printed == 1) {
        std::cout << (work ? "what the kernel does differently:\n" : "what follows:\n");
      }
      std::cout << fmt::format("  {:<32} {:>14.6g} {:>14.6g} {:>10}\n", io::printable(figure.name),
                               figure.a, figure.b, change_of(figure));
    }
    if (printed > kPrintedFigures) {
      std::cout << fmt::format("  and {} more, which --csv and --json name\n",
                               printed - kPrintedFigures);
    }
  }
  if (figures.empty()) {
    std::cout << "no figure of the profiles differs by more than it does between two launches\n";
  }
}

/// Rows of name, A, B, B over A and verdict.
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
  void add(const std::vector<lab::MovedFigure>& figures) {
    for (const lab::MovedFigure& figure : figures) {
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

double threshold_of(const KernelArguments& arguments, double usual) {
  return arguments.compare.threshold_percent > 0 ? arguments.compare.threshold_percent / 100
                                                 : usual;
}

int exit_code(const KernelArguments& arguments, lab::Speed speed) {
  return arguments.gate && speed == lab::Speed::kSlower ? kFailed : kDone;
}

lab::Speed speed_of(const lab::MovedTime& time) {
  return time.verdict.speed;
}

int compare_files(const KernelArguments& arguments) {
  const std::string& a = arguments.names[0];
  const std::string& b = arguments.names[1];
  const std::string of_a = io::read_small_file(a);
  const std::string of_b = io::read_small_file(b);
  const lab::FileComparison result =
      lab::compare_texts(a, of_a, b, of_b, threshold_of(arguments, lab::kFilesThreshold));
  Csv csv;
  Json times = Json::array();
  for (const lab::MovedTime& one : result.times) {
    const std::string verdict(to_string(one.verdict.speed));
    if (arguments.json.leaves_text() && one.verdict.speed != lab::Speed::kSame) {
      std::cout << fmt::format("{:<9} {:.3f}: {:.4f} ms to {:.4f} ms, {}\n", verdict,
                               one.verdict.ratio, one.a * 1e3, one.b * 1e3,
                               io::printable(one.name));
    }
    csv.add(one.name, one.a, one.b, verdict);
    times.push_back({{"name", one.name}, {"a", one.a}, {"b", one.b}});
    times.back().update(to_json(one.verdict));
  }
  csv.add(result.figures);
  if (arguments.json.leaves_text()) {
    if (result.is_profile) {
      print_figures(result.figures);
    }
    for (const std::string& one : result.unmatched) {
      std::cout << io::printable(one) << '\n';
    }
    std::cout << to_string(result.speed) << ':';
    for (const lab::Speed speed :
         {lab::Speed::kSlower, lab::Speed::kAmbiguous, lab::Speed::kFaster, lab::Speed::kSame}) {
      std::cout << fmt::format(" {} {}{}", std::ranges::count(result.times, speed, speed_of),
                               to_string(speed), speed == lab::Speed::kSame ? "\n" : ",");
    }
  }
  csv.write(arguments.compare.csv);
  Json json = {{"machine", Json::parse(result.machine)},
               {"a", {{"what", a}}},
               {"b", {{"what", b}}},
               {"verdict", to_string(result.speed)},
               {"ratio", result.ratio},
               {"times", std::move(times)},
               {"counters", to_json(result.figures)},
               {"unmatched", result.unmatched}};
  int code = exit_code(arguments, result.speed);
  if (arguments.gate && !result.is_profile) {
    // Peers are in the reports, and say whether the machine was the same.
    const std::vector<lab::TimeChange> changes = lab::compare_times(
        lab::timed_figures(of_b, b), lab::earlier_figures(a, lab::gpu_of_result(of_b, b)));
    json["changes"] = Json::parse(lab::to_json(changes));
    code = pass_time_gate(changes, a, arguments.json.leaves_text()) ? kDone : kFailed;
  }
  arguments.json.write(json);
  return code;
}

void print_side(const Side& side, const lab::StepSide& measured) {
  std::cout << fmt::format("{}: {:.4f} ms +- {:.1f}%, {} MHz, {:.0f} W: {}\n", side.letter,
                           measured.seconds * 1e3, 50 * measured.spread / measured.seconds,
                           measured.sm_mhz, measured.watts, io::printable(side.what));
}

Json to_json(const Side& side, const lab::StepSide& measured) {
  Json ready = Json::parse(measured.ready);
  ready.erase("machine");
  return {{"what", side.what},         {"seconds", measured.seconds}, {"spread", measured.spread},
          {"sm_mhz", measured.sm_mhz}, {"watts", measured.watts},     {"ready", std::move(ready)}};
}

int compare_sides(const KernelArguments& arguments) {
  const Side a = side_of(arguments, false);
  const Side b = side_of(arguments, true);
  lab::StepOptions options;
  options.wanted.threshold = threshold_of(arguments, lab::kSamplesThreshold);
  options.wanted.most = arguments.compare.most_pairs;
  options.seed = arguments.check.seed;
  const auto program = [](const Side& side) {
    return lab::StepProgram{fmt::format("{} ({})", side.letter, side.what),
                            command_of(side, "run", {"--steps"})};
  };
  const lab::StepComparison result = lab::compare_steps(program(a), program(b), options);
  const lab::SpeedVerdict& verdict = result.judged.verdict;
  const std::string speed(to_string(verdict.speed));
  const Json ready = Json::parse(result.a.ready);
  if (arguments.json.leaves_text()) {
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
  Json json = {{"machine", ready.value("machine", Json())},
               {"card", ready.value("card", Json())},
               {"case", ready.value("case", Json())},
               {"a", to_json(a, result.a)},
               {"b", to_json(b, result.b)}};
  json.update(to_json(verdict));
  json["threshold"] = options.wanted.threshold;
  json["rounds"] = result.judged.pairs;
  json["dropped"] = result.judged.dropped;
  json["counters"] = Json::array();
  int code = exit_code(arguments, verdict.speed);
  if (arguments.compare.profile) {
    const Interruption interruption;
    try {
      const lab::FileComparison moved = lab::compare_texts(
          "A's profile", profile_of(a), "B's profile", profile_of(b), lab::kFilesThreshold);
      if (arguments.json.leaves_text()) {
        print_figures(moved.figures);
      }
      csv.add(moved.figures);
      json["counters"] = to_json(moved.figures);
    } catch (const Error& error) {  // the verdict is written nevertheless
      rethrow_unless_finding(error);
      say_error(error.what(), "");
      json["counters_missing"] = error.what();
      code = kFailed;
    }
  }
  csv.write(arguments.compare.csv);
  arguments.json.write(json);
  return code;
}

}  // namespace

int run_compare(const KernelArguments& arguments) {
  const CompareArguments& compare = arguments.compare;
  const bool has_sides = !compare.with_program.empty() || !compare.with_plan.empty() ||
                         !compare.with_level.empty() || !compare.with_sources.empty() ||
                         compare.with_parameters.has_value();
  if (arguments.names.size() == 2 && !has_sides && !compare.profile) {
    const bool chooses = !compare.program.empty() || !arguments.level.empty() ||
                         !arguments.plan.empty() || !arguments.sources.empty() ||
                         !arguments.parameters.empty() || !arguments.check.only_case.empty();
    if (chooses) {
      throw Error(
          "two files hold what was run: they are compared without --program, --level, --plan, "
          "--sources, --parameters, --case and --problem");
    }
    return compare_files(arguments);
  }
  if (arguments.names.size() != 1) {
    throw Error("this command takes one card, or two files and no --with option");
  }
  const lab::Card& card = *lab::find_cards(arguments.names).front();
  static_cast<void>(lab::find_case(card, arguments.check.only_case));
  for (const std::string& level : {arguments.level, compare.with_level}) {
    if (!level.empty()) {
      lab::require_level(card, level);
    }
  }
  if (!has_sides) {
    throw Error(
        "say in what B differs from A: --with-program, --with-level, --with-plan, --with-sources "
        "or --with-parameters");
  }
  try {
    return compare_sides(arguments);
  } catch (const Interrupted&) {
    return kInterrupted;
  }
}

}  // namespace fovea::cli
