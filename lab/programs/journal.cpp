// Journal of a program in the emulator: its launches, findings and refusals, as the library in its
// process writes them and the command reads them.
#include "lab/programs/journal.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/error.hpp"
#include "io/descriptor.hpp"
#include "io/text.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/field.hpp"
#include "lab/emulation/findings_order.hpp"
#include "lab/emulation/findings_text.hpp"

namespace fovea::programs {
namespace {

// Identifies findings of the same instruction of the same kernel.
std::string key_of(const emu::Finding& finding) {
  return fmt::format("{} {} {} {}", emu::name_of(finding.kind), finding.kernel, finding.line,
                     finding.other ? finding.other->line : 0);
}

void tell_line(const std::string& text) {
  constexpr std::size_t kMaxCharacters = 4000;  // the report of a deadlock names all warps
  const std::string line = io::printable(text, kMaxCharacters) + '\n';
  static_cast<void>(std::fflush(stdout));
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
}

void tell(const std::string& text) {
  tell_line("fovea: " + text);
}

}  // namespace

void Journal::write(const nlohmann::ordered_json& line) {
  if (file_.empty()) {
    return;
  }
  // Opened for each line, since the program may close descriptors that it does not know.
  const io::Descriptor descriptor(
      open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));  // NOLINT(*-vararg)
  if (descriptor.get() >= 0) {
    using Json = nlohmann::ordered_json;
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    static_cast<void>(!::write(descriptor.get(), text.data(), text.size()));
  }
}

void Journal::add(const LaunchRecord& launch) {
  write({{"event", "launch"},
         {"number", launch.number},
         {"kernel", launch.kernel},
         {"schedules", launch.schedules},
         {"operations", launch.operations},
         {"seconds", launch.seconds},
         {"chosen", launch.is_chosen}});
}

void Journal::add_finding(const LaunchRecord& launch, const emu::Finding& finding,
                          std::uint64_t seed) {
  const std::string key = key_of(finding);
  write({{"event", "finding"},
         {"key", key},
         {"launch", launch.number},
         {"seed", seed},
         {"finding", emulation::to_json(finding)}});
  if (told_.insert(emulation::line_key(finding)).second) {
    tell_finding(launch, finding, seed);
  }
}

void Journal::tell_finding(const LaunchRecord& launch, const emu::Finding& finding,
                           std::uint64_t seed) {
  if (is_gnu_) {
    for (const std::string& line :
         emulation::compiler_lines(finding, {.file = program_, .is_kept = false})) {
      tell_line(line);
    }
    return;
  }
  emu::Finding shown = finding;
  shown.kernel = emulation::plain_name(finding.kernel);
  if (shown.other) {
    shown.other->kernel = emulation::plain_name(shown.other->kernel);
  }
  tell(fmt::format("launch {}, seed {}: {}", launch.number, seed, shown.text()));
}

void Journal::add_ignored(const std::vector<std::uint64_t>& counts) {
  if (std::ranges::any_of(counts, [](std::uint64_t count) { return count != 0; })) {
    write({{"event", "ignored"}, {"counts", counts}});
  }
}

void Journal::add_refusal(const std::string& text) {
  if (told_.insert(text).second) {
    write({{"event", "refusal"}, {"text", text}});
    tell(text);
  }
}

void Journal::add_note(const std::string& text) {
  if (told_.insert(text).second) {
    write({{"event", "note"}, {"text", text}});
    tell(text);
  }
}

nlohmann::ordered_json to_json(const JournalSummary::Accusation& accusation) {
  nlohmann::ordered_json json = emulation::to_json(accusation.finding);
  json["launch"] = accusation.launch;
  json["seed"] = accusation.seed;
  json["launches"] = accusation.launches;
  return json;
}

namespace {

using emulation::Field;

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();

// Adds up the events of a journal.
class JournalReader {
 public:
  void add(const Field& event) {
    const std::string& name = event.at("event").text();
    if (name == "launch") {
      add_launch(event);
    } else if (name == "finding") {
      add_finding(event);
    } else if (name == "ignored") {
      add_ignored(event);
    } else if (name == "refusal") {
      summary_.refusals.push_back(event.at("text").text());
    } else if (name == "note") {
      summary_.notes.push_back(event.at("text").text());
    }
  }

  JournalSummary take() {
    summary_.accused_launches = accused_.size();
    return std::move(summary_);
  }

 private:
  void add_launch(const Field& event) {
    ++summary_.launches;
    summary_.chosen_launches += event.at("chosen").flag() ? 1 : 0;
    summary_.schedules += event.at("schedules").whole(0, kAny);
    summary_.operations += event.at("operations").whole(0, kAny);
    summary_.seconds += event.at("seconds").number();
    summary_.kernels.insert(event.at("kernel").text());
  }

  void add_finding(const Field& event) {
    const std::uint64_t launch = event.at("launch").whole(0, kAny);
    const auto [place, is_new] = places_.emplace(event.at("key").text(), summary_.findings.size());
    if (is_new) {
      summary_.findings.push_back({.finding = emulation::read_finding(event.at("finding")),
                                   .launch = launch,
                                   .seed = event.at("seed").whole(0, kAny)});
    }
    accused_.insert(launch);
    if (is_new || last_launch_[place->second] != launch) {
      last_launch_[place->second] = launch;
      ++summary_.findings[place->second].launches;
    }
  }

  void add_ignored(const Field& event) {
    const auto counts = event.at("counts").elements();
    summary_.ignored_by.resize(std::max(summary_.ignored_by.size(), counts.size()));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      summary_.ignored_by[i] += counts[i].whole(0, kAny);
    }
  }

  JournalSummary summary_;
  std::map<std::string, std::size_t> places_;         // by key, in the findings
  std::map<std::size_t, std::uint64_t> last_launch_;  // of each finding
  std::set<std::uint64_t> accused_;
};

}  // namespace

JournalSummary read_journal(const std::filesystem::path& file) {
  JournalReader reader;
  std::ifstream lines(file);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) {
      continue;
    }
    try {
      reader.add(Field(json));
    } catch (const Error& error) {
      fail("the journal of the program is malformed: line {}: {}", number, error.what());
    }
  }
  return reader.take();
}

}  // namespace fovea::programs
