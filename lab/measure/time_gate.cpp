// Matches figures with earlier ones, finds a peer for each, and determines which figures became
// slower.
#include "lab/measure/time_gate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "lab/system/json_fields.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;
using TimesJson = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kCeilings = {"copy_bytes_per_second", "bf16_flops",
                                                  "e4m3_flops"};

std::map<std::string, double> read_ceilings(const TimesJson& json) {
  std::map<std::string, double> ceilings;
  for (const char* const name : kCeilings) {
    if (const double rate = number_in(json, name); rate > 0) {
      ceilings[name] = 1.0 / rate;
    }
  }
  return ceilings;
}

TimesJson parse_result(std::string_view text, const std::string& name) {
  TimesJson json = io::try_parse_ordered_json(text);
  if (!json.is_object()) {
    fail("{} is not a JSON object, so it contains no figures to compare with", name);
  }
  return json;
}

void add_kernel_figures(const TimesJson& kernels, std::vector<TimedFigure>& figures) {
  const std::map<std::string, double> ceilings = read_ceilings(kernels);
  for (const TimesJson& row : array_in(kernels, "figures")) {
    if (!text_in(row, "plan").empty()) {
      continue;  // a plan measured with --plans; the launcher's choice is a separate figure
    }
    TimedFigure figure{.what = fmt::format("{} {}", text_in(row, "card"), text_in(row, "case")),
                       .work = number_in(row, "flops"),
                       .seconds = number_in(row, "seconds"),
                       .spread = number_in(row, "spread"),
                       .ceilings = ceilings};
    for (const TimesJson& peer : array_in(row, "peers")) {
      if (const double seconds = number_in(peer, "seconds");
          seconds > 0 && text_in(peer, "wrong").empty()) {
        figure.peers[text_in(peer, "name")] = seconds;
      }
    }
    if (figure.seconds > 0) {
      figures.push_back(std::move(figure));
    }
  }
}

/// Adds the encoder's figures. Uses times of the device's clock, since host times depend on the
/// machine.
void add_encoder_figures(const TimesJson& rows, const std::map<std::string, double>& ceilings,
                         std::vector<TimedFigure>& figures) {
  for (const TimesJson& row : rows) {
    const double batch = number_in(row, "batch_size");
    const double rate = number_in(row, "device_images_per_second");
    if (batch <= 0 || rate <= 0) {
      continue;
    }
    const std::map<std::string, double> measured = read_ceilings(object_in(row, "ceilings"));
    figures.push_back(
        {.what = fmt::format("encoder {}, batch {:.0f}", text_in(row, "precision"), batch),
         .work = number_in(row, "gflop_per_second") * number_in(row, "median_seconds"),
         .seconds = batch / rate,
         .ceilings = measured.empty() ? ceilings : measured});
  }
}

std::vector<TimedFigure> read_figures(const TimesJson& json) {
  std::vector<TimedFigure> figures;
  const TimesJson& kernels = object_in(json, "kernels");
  add_kernel_figures(kernels, figures);
  const std::map<std::string, double> ceilings = read_ceilings(kernels);
  add_encoder_figures(array_in(json, "gpu_bench"), ceilings, figures);  // written by
                                                                        // bench/run_gpu.py
  add_encoder_figures(array_in(json, "figures"), ceilings, figures);    // written by `fovea bench
                                                                        // --json`
  return figures;
}

std::string read_gpu_name(const TimesJson& json) {
  return text_in(object_in(object_in(json, "machine"), "gpu"), "name");
}

void require_gpu(const TimesJson& json, const std::string& file, const std::string& gpu) {
  if (read_gpu_name(json) != gpu) {
    fail("{} was measured on {}, not on {}: only times on the same GPU can be compared", file,
         read_gpu_name(json).empty() ? "an unnamed GPU" : read_gpu_name(json), gpu);
  }
}

/// Returns the result files in a folder, oldest first. Only files of results have names that begin
/// with a date.
std::vector<fs::path> find_results(const std::string& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.ends_with(".json") && name.starts_with("20")) {
      files.push_back(entry.path());
    }
  }
  // File names are DATE-RUN-COMMIT.json; the run number may be absent.
  std::ranges::sort(files, {}, [](const fs::path& file) {
    const std::string name = file.filename().string();
    constexpr std::size_t kDate = sizeof("2026-01-31-") - 1;
    int run = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] =
        std::from_chars(name.data() + std::min(kDate, name.size()), end, run);
    constexpr int kMaxRun = 9999;  // larger numbers are the beginning of a commit
    const bool is_run = error == std::errc() && run <= kMaxRun && rest != end && *rest == '-';
    return std::tuple(name.substr(0, kDate), is_run ? run : 0, file.string());
  });
  return files;
}

/// The change in the time of a peer that was measured in both runs.
struct PeerChange {
  std::string name;
  double change = 0.0;
};

/// Returns the change of the fastest peer on the same problem, which has the same bottleneck, or,
/// without a peer, of the GPU's ceiling that changed most. The name is empty if none was measured
/// in both runs.
PeerChange compare_peers(const TimedFigure& earlier, const TimedFigure& now) {
  PeerChange fastest;
  double best_seconds = 0.0;
  for (const auto& [name, seconds] : now.peers) {
    const auto earlier_value = earlier.peers.find(name);
    if (earlier_value != earlier.peers.end() &&
        (fastest.name.empty() || earlier_value->second < best_seconds)) {
      best_seconds = earlier_value->second;
      fastest = {name, seconds / earlier_value->second - 1};
    }
  }
  if (!fastest.name.empty()) {
    return fastest;
  }
  PeerChange ceiling;
  for (const auto& [name, seconds] : now.ceilings) {
    const auto earlier_value = earlier.ceilings.find(name);
    if (earlier_value != earlier.ceilings.end()) {
      const double change = seconds / earlier_value->second - 1;
      if (ceiling.name.empty() || std::abs(change) > std::abs(ceiling.change)) {
        ceiling = {fmt::format("the GPU's {}", name), change};
      }
    }
  }
  return ceiling;
}

TimeChange judge_change(const TimedFigure& now, const EarlierFigures& all) {
  TimeChange result{.what = now.what, .now = now.seconds};
  const auto match = all.find(now.what);
  if (match == all.end()) {
    result.reason = "there is no earlier figure for it";
    return result;
  }
  const TimedFigure& earlier = match->second.figure;
  result.file = match->second.file;
  result.earlier = earlier.seconds;
  constexpr double kSameWork = 1e-3;
  if (std::abs(now.work - earlier.work) > kSameWork * earlier.work) {
    result.reason =
        "the earlier figure is for another problem with a different number of operations";
    return result;
  }
  result.change = now.seconds / earlier.seconds - 1;
  const PeerChange peer = compare_peers(earlier, now);
  result.peer = peer.name;
  result.peer_change = peer.change;
  if (peer.name.empty()) {
    result.reason = "no peer and no ceiling was measured in both runs";
    return result;
  }
  const bool is_same_machine = std::abs(peer.change) < kSteadyPeer;
  const double relative_change = (1 + result.change) / (1 + peer.change) - 1;
  const bool is_slower = result.change > kMaxSlowdown;
  if (is_same_machine ? !is_slower : relative_change <= kMaxSlowdown) {
    result.verdict = TimeVerdict::kSteady;
  } else if (!is_slower) {
    result.reason = "only its peer became faster: the machine or the library may have changed";
  } else if (now.seconds - earlier.seconds <= std::max(now.spread, earlier.spread)) {
    result.reason = "AMBIGUOUS: the spread of the samples exceeds the slowdown";
  } else {
    result.verdict = TimeVerdict::kSlower;
  }
  return result;
}

}  // namespace

std::vector<TimedFigure> timed_figures(std::string_view json, const std::string& name) {
  return read_figures(parse_result(json, name));
}

std::string gpu_of_result(std::string_view json, const std::string& name) {
  return read_gpu_name(parse_result(json, name));
}

EarlierFigures earlier_figures(const std::string& path, const std::string& gpu) {
  const bool is_folder = fs::is_directory(path);
  EarlierFigures earlier;
  for (const fs::path& file : is_folder ? find_results(path) : std::vector<fs::path>{path}) {
    const TimesJson json = parse_result(io::read_small_file(file), file.string());
    if (is_folder && read_gpu_name(json) != gpu) {
      continue;
    }
    require_gpu(json, file.string(), gpu);
    for (TimedFigure& figure : read_figures(json)) {
      std::string what = figure.what;
      earlier[std::move(what)] = {std::move(figure), file.filename().string()};
    }
  }
  if (earlier.empty() && !is_folder) {
    fail("{} contains no times of kernels or of the encoder", path);
  }
  return earlier;
}

std::string committed_results() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  // Removes build/release/bin/fovea from the end of the path.
  const fs::path sources = program.parent_path().parent_path().parent_path().parent_path();
  const fs::path results = sources / "bench/results";
  return fs::is_directory(results, ignored) ? results.string() : "";
}

std::string_view to_string(TimeVerdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"steady", "SLOWER", "not judged"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

std::vector<TimeChange> compare_times(std::span<const TimedFigure> now,
                                      const EarlierFigures& earlier) {
  std::vector<TimeChange> changes;
  for (const TimedFigure& figure : now) {
    changes.push_back(judge_change(figure, earlier));
  }
  return changes;
}

std::string to_json(std::span<const TimeChange> changes) {
  TimesJson json = TimesJson::array();
  for (const TimeChange& time : changes) {
    json.push_back({{"what", time.what},
                    {"verdict", to_string(time.verdict)},
                    {"earlier", time.earlier},
                    {"now", time.now},
                    {"change", time.change},
                    {"peer", time.peer},
                    {"peer_change", time.peer_change},
                    {"file", time.file},
                    {"reason", time.reason}});
  }
  return json.dump(-1, ' ', false,
                   TimesJson::error_handler_t::replace);  // file names may be invalid UTF-8
}

}  // namespace fovea::lab
