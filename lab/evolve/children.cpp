// Runs child processes that try candidates, and communicates with a proposer.
#include "lab/evolve/children.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "io/json.hpp"
#include "lab/system/json_fields.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxUnrequestedLines = 1000;  // tolerated number of unrequested lines from a proposer
constexpr std::size_t kMaxOutputBytes = std::size_t{4} << 20;

/// All output of a child process.
struct ChildOutput {
  std::string output;
  std::string ending;  // "ended with exit code 1: ..."
};

ChildOutput run_child(const std::vector<std::string>& command, double max_seconds, StopFlag stop) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  Child child(command, stop);
  child.close_input();
  ChildOutput child_output;
  while (child.is_open()) {
    const double seconds_left =
        max_seconds - std::chrono::duration<double>(Clock::now() - began).count();
    // A kernel under test may print without limit.
    if (seconds_left <= 0 || child_output.output.size() > kMaxOutputBytes) {
      child_output.ending = seconds_left <= 0
                                ? fmt::format("did not end within {:g} s", max_seconds)
                                : fmt::format("printed more than {} MiB", kMaxOutputBytes >> 20);
      return child_output;
    }
    if (const std::optional<std::string> line = child.read_line(seconds_left); line.has_value()) {
      child_output.output += *line + '\n';
    }
  }
  child_output.ending = child.why_silent();
  return child_output;
}

[[noreturn]] void refuse_answer(const std::string& why) {
  fail("the proposer's answer {}", why);
}

Json parse_object(const std::string& answer) {
  constexpr std::size_t kShown = 100;
  Json json;
  std::string why;
  try {
    json = io::parse_ordered_json(answer, "its text");
  } catch (const Error& error) {
    why = fmt::format(" ({})", error.what());
  }
  if (!json.is_object()) {
    refuse_answer(fmt::format("is not a JSON object: {}{}", answer.substr(0, kShown), why));
  }
  return json;
}

void change_values(Variant& variant, const Json& parameters, const TuningSpace& space) {
  if (!parameters.is_object()) {
    refuse_answer("has \"parameters\" that are not a JSON object");
  }
  for (const auto& [name, value] : parameters.items()) {
    const auto range = std::ranges::find(space.ranges, name, &ParameterRange::name);
    if (range == space.ranges.end()) {
      std::vector<std::string> known;
      std::ranges::transform(space.ranges, std::back_inserter(known), &ParameterRange::name);
      refuse_answer(fmt::format("names a parameter '{}', but kernels of {} have {}", name,
                                space.family, fmt::join(known, ", ")));
    }
    const bool allowed =
        value.is_number_integer() &&
        std::ranges::any_of(range->values, [&](int number) { return value == Json(number); });
    if (!allowed) {
      refuse_answer(fmt::format("sets {} to {}, which is not one of {}", name, value.dump(),
                                fmt::join(range->values, ", ")));
    }
    std::ranges::find(variant.values, name, &std::pair<std::string, int>::first)->second =
        value.get<int>();
  }
}

void change_files(Variant& variant, const Json& files, const KernelSources& sources) {
  if (!files.is_object()) {
    refuse_answer("has \"files\" that are not a JSON object");
  }
  for (const auto& [path, text] : files.items()) {
    if (!sources.files().contains(path)) {
      refuse_answer(fmt::format("replaces the file '{}', which is not one of the sources", path));
    }
    if (!text.is_string()) {
      refuse_answer(fmt::format("has no text for the file '{}'", path));
    }
    variant.files[path] = text.get<std::string>();
  }
}

/// Returns the number of the candidate that an answer modifies: its "parent", or else the best
/// candidate.
int parse_parent(const Json& answer, const Situation& situation) {
  const auto named = answer.find("parent");
  if (named == answer.end()) {
    return situation.parents.empty() ? 0 : situation.parents.front();
  }
  const int count = static_cast<int>(situation.trials.size());
  if (!named->is_number_integer() || *named < Json(0) || *named >= Json(count) ||
      !situation.trials[named->get<std::size_t>()].proposal.refused.empty()) {
    refuse_answer(fmt::format("has the parent {}, which is not a valid candidate", named->dump()));
  }
  return named->get<int>();
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the command line for a child that handles a variant. Writes modified sources to a new
/// folder, `folder`.
std::vector<std::string> child_command(const ChildEvaluator::Setup& setup, const char* command,
                                       const Variant& variant,
                                       std::optional<TemporaryFolder>& folder) {
  std::vector<std::string> words = {setup.program, "kernel", command};
  words.insert(words.end(), setup.question.begin(), setup.question.end());
  Json changes = Json::object();
  const ParameterValues& defaults = setup.sources->kernel(variant.kernel).values;
  for (const auto& [name, value] : variant.values) {
    if (value_of(defaults, name) != value) {
      changes[name] = value;
    }
  }
  words.insert(words.end(), {"--json", "--parameters", changes.dump()});
  if (!variant.files.empty()) {
    setup.sources->with_files(variant.files).write(folder.emplace().path());
  }
  const std::string sources = folder.has_value() ? folder->path().string() : setup.folder;
  if (!sources.empty()) {
    words.insert(words.end(), {"--sources", sources});
  }
  return words;
}

}  // namespace

std::optional<CandidateOutcome> outcome_from_try(const std::string& output) {
  const Json json = io::try_parse_ordered_json(output);
  const auto valid = json.is_object() ? json.find("valid") : json.end();
  if (!json.is_object() || valid == json.end() || !(valid->is_boolean() || valid->is_null())) {
    return std::nullopt;
  }
  CandidateOutcome outcome{.valid = validity_from(*valid),
                           .failed_at = text_in(json, "failed_at"),
                           .why = text_in(json, "reason")};
  outcome.seconds = number_in(json, "seconds");
  outcome.baseline_seconds = number_in(json, "baseline_seconds");
  if (outcome.seconds > 0 && outcome.baseline_seconds > 0) {
    outcome.speed_up = outcome.baseline_seconds / outcome.seconds;
    outcome.spread = std::max(number_in(json, "spread") / outcome.seconds,
                              number_in(json, "baseline_spread") / outcome.baseline_seconds);
  }
  return outcome;
}

CandidateOutcome ChildEvaluator::evaluate(const Variant& variant, std::uint64_t seed) {
  std::optional<TemporaryFolder> folder;
  std::vector<std::string> words = child_command(setup_, "try", variant, folder);
  // The child gets a longer time limit for itself, which only matters if this program is killed.
  constexpr double kGraceSeconds = 5;
  words.insert(words.end(),
               {"--kernel", variant.kernel, "--seed", std::to_string(seed), "--most-seconds",
                fmt::format("{:.0f}", std::ceil(setup_.max_seconds + kGraceSeconds))});
  const ChildOutput child_output = run_child(words, setup_.max_seconds, setup_.stop);
  if (std::optional<CandidateOutcome> outcome = outcome_from_try(child_output.output);
      outcome.has_value()) {
    return *outcome;
  }
  return {.valid = false, .failed_at = "process", .why = "its process " + child_output.ending};
}

std::vector<Hint> ChildEvaluator::findings(const Variant& variant, std::string& missing) {
  std::optional<TemporaryFolder> folder;
  std::vector<std::string> words = child_command(setup_, "profile", variant, folder);
  if (const TuningSpace& space = find_space(setup_.spaces, variant.kernel);
      space.kernel != setup_.spaces.front().kernel) {
    words.insert(words.end(), {"--plan", space.plan});
  }
  const ChildOutput child_output = run_child(words, setup_.max_seconds, setup_.stop);
  Json json = io::try_parse_ordered_json(child_output.output);
  if (json.is_array() && !json.empty()) {
    json = Json(json.front());
  }
  std::vector<Hint> hints;
  if (!json.is_object() || !json.contains("findings")) {
    missing = "`fovea kernel profile` " + child_output.ending;
    return hints;
  }
  for (const Json& finding : json.at("findings")) {
    hints.push_back(hint_from(finding));
  }
  return hints;
}

Proposal proposal_from(const std::string& answer, const Situation& situation,
                       const KernelSources& sources) {
  Proposal proposal;
  try {
    const Json json = parse_object(answer);
    const int parent = parse_parent(json, situation);
    Variant variant = situation.trials[static_cast<std::size_t>(parent)].proposal.variant;
    const std::string kernel = text_in(json, "kernel", variant.kernel);
    if (std::ranges::find(situation.spaces, kernel, &TuningSpace::kernel) ==
        situation.spaces.end()) {
      refuse_answer(fmt::format("names a kernel '{}', which cannot run this case", kernel));
    }
    const TuningSpace& space = find_space(situation.spaces, kernel);
    if (kernel != variant.kernel) {
      variant.kernel = kernel;
      variant.values = space.values;
    }
    if (!json.contains("parameters") && !json.contains("files") && !json.contains("kernel")) {
      refuse_answer("has neither \"parameters\" nor \"files\"");
    }
    change_values(variant, json.value("parameters", Json::object()), space);
    change_files(variant, json.value("files", Json::object()), sources);
    proposal.variant = std::move(variant);
    proposal.parents = {parent};
    proposal.reason = text_in(json, "reason");
  } catch (const Error& error) {
    proposal = {.refused = error.what()};
  }
  return proposal;
}

std::optional<Proposal> ProgramProposer::propose(const Situation& situation) {
  Json line;
  if (child_.has_value()) {
    // Discards unrequested lines, which must not be mistaken for the answer to this request.
    int unrequested = 0;
    while (unrequested < kMaxUnrequestedLines && child_->read_line(0).has_value()) {
      ++unrequested;
    }
    if (unrequested == kMaxUnrequestedLines) {
      return refused_proposal("the proposer keeps writing unrequested lines");
    }
    line = {{"kind", "result"}, {"candidate", to_json(situation.trials.back(), situation.trials)}};
  } else {
    if (starts_ == kMaxStarts) {
      why_none_ = fmt::format("the proposer was started {} times", kMaxStarts);
      return std::nullopt;
    }
    ++starts_;
    child_.emplace(setup_.command, setup_.stop);
    line = setup_.task;
    line["history"] = Json::array();
    for (const Candidate& trial : situation.trials) {
      line["history"].push_back(to_json(trial, situation.trials));
    }
  }
  line["number"] = situation.number;
  line["best"] = situation.parents.empty() ? 0 : situation.parents.front();
  line["findings"] = Json::array();
  for (const Hint& finding : situation.findings) {
    line["findings"].push_back(to_json(finding));
  }
  std::optional<std::string> answer;
  if (child_->write_line(json_line(line), setup_.max_seconds)) {
    answer = child_->read_line(setup_.max_seconds);
  }
  if (!answer.has_value()) {
    return refused_proposal("the proposer " + child_->why_silent());
  }
  if (const Json json = io::try_parse_ordered_json(*answer);
      json.is_object() && json.value("stop", Json(false)) == Json(true)) {
    why_none_ = "the proposer stopped: " + text_in(json, "reason", "no reason given");
    return std::nullopt;
  }
  return proposal_from(*answer, situation, *setup_.sources);
}

Proposal ProgramProposer::refused_proposal(std::string why) {
  child_.reset();
  return {.refused = std::move(why)};
}

}  // namespace fovea::lab
