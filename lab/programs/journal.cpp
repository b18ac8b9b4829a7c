// Journal of a program in the emulator: its launches, findings and refusals, as the library in its
// process writes them and the command reads them.
#include "lab/programs/journal.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "io/descriptor.hpp"
#include "io/text.hpp"
#include "lab/emulation/emulation.hpp"

namespace fovea::programs {
namespace {

// Identifies findings of the same instruction of the same kernel.
std::string key_of(const emu::Finding& finding) {
  return fmt::format("{} {} {} {}", emu::name_of(finding.kind), finding.kernel, finding.line,
                     finding.other ? finding.other->line : 0);
}

void tell(const std::string& text) {
  constexpr std::size_t kMaxCharacters = 4000;  // the report of a deadlock names all warps
  const std::string line = "fovea: " + io::printable(text, kMaxCharacters) + '\n';
  static_cast<void>(std::fflush(stdout));
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), stderr));
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
  if (told_.insert(key).second) {
    emu::Finding shown = finding;
    shown.kernel = emulation::plain_name(finding.kernel);
    if (shown.other) {
      shown.other->kernel = emulation::plain_name(shown.other->kernel);
    }
    tell(fmt::format("launch {}, seed {}: {}", launch.number, seed, shown.text()));
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

JournalSummary read_journal(const std::filesystem::path& file) {
  using Json = nlohmann::ordered_json;
  JournalSummary summary;
  std::map<std::string, std::size_t> places;         // by key, in `findings`
  std::map<std::size_t, std::uint64_t> last_launch;  // of each finding
  std::set<std::uint64_t> accused;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) {
      continue;
    }
    const std::string event = json.value("event", "");
    if (event == "launch") {
      ++summary.launches;
      summary.chosen_launches += json.value("chosen", false) ? 1 : 0;
      summary.schedules += json.value("schedules", std::uint64_t{0});
      summary.operations += json.value("operations", std::uint64_t{0});
      summary.seconds += json.value("seconds", 0.0);
      summary.kernels.insert(json.value("kernel", ""));
    } else if (event == "finding") {
      const auto [place, is_new] = places.emplace(json.value("key", ""), summary.findings.size());
      if (is_new) {
        summary.findings.push_back(json.value("finding", Json::object()));
        summary.findings.back()["launch"] = json.value("launch", std::uint64_t{0});
        summary.findings.back()["seed"] = json.value("seed", std::uint64_t{0});
        summary.findings.back()["launches"] = std::uint64_t{0};
      }
      const auto launch = json.value("launch", std::uint64_t{0});
      accused.insert(launch);
      if (std::exchange(last_launch[place->second], launch) != launch) {
        Json& launches = summary.findings[place->second]["launches"];
        launches = launches.get<std::uint64_t>() + 1;
      }
    } else if (event == "refusal") {
      summary.refusals.push_back(json.value("text", ""));
    } else if (event == "note") {
      summary.notes.push_back(json.value("text", ""));
    }
  }
  summary.accused_launches = accused.size();
  return summary;
}

}  // namespace fovea::programs
