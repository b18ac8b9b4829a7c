// Assigns a profile's samples to source locations and to the roles of the warps.
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lab/code/resources.hpp"
#include "lab/profile/profile.hpp"
#include "lab/system/largest_first.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kMaxPlaces = 8;
constexpr double kMinShare = 0.01;  // minimal share of samples for a line of output

/// A source location: file and line.
struct Frame {
  std::string file;
  int line = 0;

  [[nodiscard]] std::string text() const {
    return fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line);
  }
  [[nodiscard]] bool in(std::string_view folder) const {
    return file.find(folder) != std::string::npos;
  }
  [[nodiscard]] bool operator==(const Frame&) const = default;
};

/// An instruction and its source locations, from the innermost inlined function to the outermost
/// one.
struct Code {
  std::string text;
  std::vector<Frame> frames;
};

/// Returns the opcode of an instruction, without its predicate.
std::string parse_opcode(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  if (word.starts_with('@')) {
    words >> word;
  }
  return word.substr(0, word.find(';'));
}

/// Copies the source location of each wait for an mbarrier to the wait's first test and branch. The
/// wait compiles to a test, a branch, and a loop elsewhere that repeats the test, of which only the
/// loop has the location.
void copy_wait_locations(std::vector<Code>& code,
                         const std::map<std::string, std::size_t>& labels) {
  constexpr std::size_t kMaxDistance = 4;  // maximal distance in instructions
  const auto is_test = [&](std::size_t i) {
    return i < code.size() && code[i].text.find("TRYWAIT") != std::string::npos;
  };
  for (std::size_t i = 1; i < code.size(); ++i) {
    const std::string& text = code[i].text;
    const auto label = text.find("`(");
    if (!text.starts_with('@') || label == std::string::npos || parse_opcode(text) != "BRA") {
      continue;
    }
    std::size_t test = i - 1;  // index of the nearest test that sets the branch's predicate
    const std::string predicate = text.substr(text.find('P'), 2) + ",";
    while (test > 0 && i - test < 3 * kMaxDistance &&
           code[test].text.find(" " + predicate) == std::string::npos) {
      --test;
    }
    const auto target = labels.find(text.substr(label + 2, text.find(')') - label - 2));
    if (!is_test(test) || target == labels.end()) {
      continue;
    }
    for (std::size_t loop = target->second; loop < target->second + kMaxDistance; ++loop) {
      if (is_test(loop)) {
        code[test].frames = code[loop].frames;
        code[i].frames = code[loop].frames;
        break;
      }
    }
  }
}

/// Returns the instructions of a kernel in program order.
std::vector<Code> read_code(const std::string& disassembly) {
  std::vector<Code> all;
  std::map<std::string, std::size_t> labels;
  std::vector<Frame> frames;
  // Whether the next source location is the first one of an instruction.
  bool is_first_location = true;
  std::istringstream lines(disassembly);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kPlace = "//## File \"";
    if (const auto mark = line.find(kPlace); mark != std::string::npos) {
      if (is_first_location) {
        frames.clear();
        is_first_location = false;
      }
      const auto file = mark + kPlace.size();
      const auto file_end = line.find('"', file);
      const auto number = line.find_first_of("0123456789", file_end);
      frames.push_back({line.substr(file, file_end - file), std::atoi(line.c_str() + number)});
    } else if (count_instructions(line).size() == 1) {
      const auto text = line.find("*/") + 2;
      all.push_back({line.substr(line.find_first_not_of(" \t", text)), frames});
      is_first_location = true;
    } else if (line.starts_with('.') && line.ends_with(':')) {
      labels[line.substr(0, line.size() - 1)] = all.size();
    }
  }
  copy_wait_locations(all, labels);
  return all;
}

/// Returns whether a location is in a wrapper around instructions rather than in a kernel that
/// calls it.
bool is_wrapper(const Frame& frame) {
  return !frame.in("kernels/") || frame.in("kernels/ptx/") || frame.in("kernels/pipe/");
}

/// Returns the text of the line, or "" if its file is not among the sources.
std::string source_line(const Frame& frame, const std::map<std::string, std::string>& sources) {
  const auto folder = frame.file.rfind("kernels/");
  const auto match =
      folder == std::string::npos ? sources.end() : sources.find(frame.file.substr(folder));
  if (match == sources.end()) {
    return {};
  }
  std::istringstream lines(match->second);
  std::string line;
  for (int i = 0; i < frame.line && std::getline(lines, line); ++i) {
  }
  line.erase(0, line.find_first_not_of(' '));
  return line;
}

void add(Samples& to, const Samples& from) {
  to.share += from.share;
  for (const auto& [reason, share] : from.stalls) {
    const auto match = std::ranges::find(to.stalls, reason, &Shares::value_type::first);
    if (match == to.stalls.end()) {
      to.stalls.emplace_back(reason, share);
    } else {
      match->second += share;
    }
  }
}

/// Returns the largest groups of samples, without those below kMinShare.
std::vector<Samples> largest(std::map<std::string, Samples> all) {
  std::vector<Samples> result;
  for (auto& [key, samples] : all) {
    if (samples.share >= kMinShare) {
      sort_largest_first(samples.stalls, &Shares::value_type::second);
      result.push_back(std::move(samples));
    }
  }
  sort_largest_first(result, &Samples::share);
  result.resize(std::min(result.size(), kMaxPlaces));
  return result;
}

/// Returns the number of outermost frames that nearly all samples have in common: the entry point
/// and the functions that it forwards to. The next frame distinguishes the roles.
std::size_t common_depth(const std::vector<Code>& code, const Profile& profile) {
  constexpr double kNearlyAll = 0.95;
  for (std::size_t depth = 0;; ++depth) {
    std::map<std::string, double> shares;
    double sum = 0;
    double largest_share = 0;
    for (std::size_t i = 0; i < std::min(code.size(), profile.instructions.size()); ++i) {
      sum += profile.instructions[i].share;
      const std::vector<Frame>& frames = code[i].frames;
      if (frames.size() > depth) {
        const Frame& frame = frames[frames.size() - 1 - depth];
        double& share = shares[frame.text()];
        share += profile.instructions[i].share;
        largest_share = std::max(largest_share, share);
      }
    }
    if (largest_share < kNearlyAll * sum || sum == 0) {
      return depth;
    }
  }
}

}  // namespace

void place(Profile& profile, const std::string& disassembly,
           const std::map<std::string, std::string>& sources) {
  profile.no_places.clear();
  const std::vector<Code> code = read_code(disassembly);
  const auto same = [](const Code& instruction, const Samples& other) {
    return parse_opcode(instruction.text) == parse_opcode(other.text);
  };
  if (!std::ranges::equal(code, profile.instructions, same)) {
    profile.no_places =
        "the compiler on this machine generates other machine code than the profiled one";
    return;
  }
  const std::size_t common = common_depth(code, profile);
  const double busy = 1 - profile["idle_warps"];
  std::map<std::string, Samples> roles;
  std::map<std::string, Samples> places;
  Samples epilogue;
  double full = 0;
  double empty = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const std::vector<Frame>& frames = code[i].frames;
    if (frames.empty()) {
      continue;
    }
    const Samples& samples = profile.instructions[i];
    const Frame& outer = frames[frames.size() - std::min(frames.size(), common + 1)];
    const auto frame_of_kernel = std::ranges::find_if_not(frames, is_wrapper);
    const Frame& inner = frame_of_kernel == frames.end() ? frames.back() : *frame_of_kernel;
    Samples& role = roles[outer.text()];
    if (role.where.empty()) {
      const std::string line = source_line(outer, sources);
      role.where = line.empty() ? outer.text() : fmt::format("{} `{}`", outer.text(), line);
    }
    add(role, samples);
    Samples& place_samples = places[inner.text() + " " + role.where];
    if (place_samples.where.empty()) {
      const std::string line = source_line(inner, sources);
      place_samples.where = inner.text();
      place_samples.role = role.where;
      place_samples.text = line.empty() ? samples.text : line;
    }
    add(place_samples, samples);
    if (place_samples.text.find("mbarrier_wait") != std::string::npos) {
      // The two mbarriers of a stage are named "full" and "empty" in kernels.
      full += place_samples.text.find("full") != std::string::npos ? samples.share : 0;
      empty += place_samples.text.find("empty") != std::string::npos ? samples.share : 0;
    }
    if (std::ranges::any_of(frames, [](const Frame& frame) {
          return frame.in("kernels/epilogue/") || frame.in("output_store");
        })) {
      add(epilogue, samples);
    }
  }
  if (roles.empty()) {
    profile.no_places = "the machine code has no line information";
    return;
  }
  double latency = 0;
  for (const auto& [reason, share] : epilogue.stalls) {
    latency += reason == "wait" || reason == "short_scoreboard" ? share : 0;
  }
  profile.figures["full_wait"] = full / busy;
  profile.figures["empty_wait"] = empty / busy;
  profile.figures["epilogue_share"] = epilogue.share / busy;
  profile.figures["epilogue_wait"] = epilogue.share > 0 ? latency / epilogue.share : 0.0;
  profile.roles = largest(std::move(roles));
  profile.places = largest(std::move(places));
}

}  // namespace fovea::lab
