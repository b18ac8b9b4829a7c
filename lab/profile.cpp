// Runs Nsight Compute on a child of this program and says what its counters mean.
#include "lab/profile.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/machine_code.hpp"
#include "lab/process.hpp"
#include "lab/resources.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostSpots = 8;

/// A place in the source: file and line.
struct Frame {
  std::string file;
  std::string line;

  [[nodiscard]] std::string text() const {
    return std::filesystem::path(file).filename().string() + ":" + line;
  }
};

/// For each instruction in order, the places that it was inlined from, innermost first.
std::vector<std::vector<Frame>> frames_of(const std::string& disassembly) {
  std::vector<std::vector<Frame>> all;
  std::vector<Frame> frames;
  bool fresh = true;  // the next place begins another instruction's list
  std::istringstream lines(disassembly);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kPlace = "//## File \"";
    if (const auto at = line.find(kPlace); at != std::string::npos) {
      if (fresh) {
        frames.clear();
        fresh = false;
      }
      const auto file = at + kPlace.size();
      const auto file_end = line.find('"', file);
      const auto number = line.find_first_of("0123456789", file_end);
      const auto number_end = line.find_first_not_of("0123456789", number);
      frames.push_back(
          {line.substr(file, file_end - file), line.substr(number, number_end - number)});
    } else if (count_instructions(line).size() == 1) {
      all.push_back(frames);
      fresh = true;
    }
  }
  return all;
}

/// Whether a place belongs to the vocabulary of instructions, not to the kernel that uses it.
bool is_vocabulary(const Frame& frame) {
  return frame.file.find("/kernels/") == std::string::npos ||
         frame.file.find("/kernels/ptx/") != std::string::npos ||
         frame.file.find("/kernels/pipe/") != std::string::npos;
}

/// The line itself when the sources are here, else its place.
std::string source_line(const Frame& frame) {
  std::ifstream file(frame.file);
  std::string line;
  for (int i = 0; i < std::stoi(frame.line) && std::getline(file, line); ++i) {
  }
  if (!file) {
    return frame.text();
  }
  line.erase(0, line.find_first_not_of(' '));
  return fmt::format("{} `{}`", frame.text(), line);
}

void keep_largest(std::vector<HotSpot>& spots) {
  std::ranges::sort(spots, [](const auto& a, const auto& b) { return a.share > b.share; });
  spots.resize(std::min(spots.size(), kMostSpots));
  std::erase_if(spots, [](const HotSpot& spot) { return spot.share < 0.01; });
}

/// Gives a profile its places from the machine code that this program carries.
void find_places(Profile& profile, int arch) {
  const gpu::KernelImage* const image = gpu::find_kernel_image(profile.kernel, arch);
  if (image == nullptr || image->code == gpu::Code::kPtx) {
    profile.no_places = "this program carries no machine code of the kernel";
  } else if (find_program("nvdisasm").empty()) {
    profile.no_places = "nvdisasm is neither on the PATH nor in $CUDA_HOME/bin";
  } else {
    place(profile, disassemble(*image, {"-gi", "-c"}));
  }
  keep_largest(profile.hot_spots);
  keep_largest(profile.roles);
}

/// What ncu said, turned into what to do about it.
[[noreturn]] void explain(const ProcessResult& result) {
  const std::string text = result.output + result.errors;
  if (text.find("ERR_NVGPUCTRPERM") != std::string::npos) {
    fail(
        "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root, or let everyone by "
        "loading the driver with NVreg_RestrictProfilingToAdminUsers=0");
  }
  if (text.find("LibraryNotLoaded") != std::string::npos) {
    fail(
        "ncu cannot reach the GPU's counters here (LibraryNotLoaded): containers and sandboxes "
        "have to pass them through");
  }
  const auto said = std::find_if_not(text.begin(), text.end(),
                                     [](unsigned char c) { return std::isspace(c) != 0; });
  fail("ncu failed with exit code {}: {}", result.exit_code,
       std::string(said, text.end()).substr(0, 600));
}

std::string page(const std::string& report, const std::vector<std::string>& options) {
  std::vector<std::string> command = {find_program("ncu"), "--import", report, "--csv", "--page"};
  command.insert(command.end(), options.begin(), options.end());
  const ProcessResult result = run_process(command);
  if (result.exit_code != 0) {
    explain(result);
  }
  return result.output;
}

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

}  // namespace

void place(Profile& profile, const std::string& disassembly) {
  const std::vector<std::vector<Frame>> frames = frames_of(disassembly);
  std::map<std::string, std::map<std::string, double>> roles;
  for (std::size_t i = 0; i < std::min(frames.size(), profile.hot_spots.size()); ++i) {
    HotSpot& spot = profile.hot_spots[i];
    if (frames[i].empty()) {
      continue;
    }
    const auto own = std::ranges::find_if_not(frames[i], is_vocabulary);
    spot.where = (own == frames[i].end() ? frames[i].back() : *own).text();
    // The entry only calls the kernel's body, in which each role is a call.
    const std::size_t depth = frames[i].size();
    roles[source_line(frames[i][depth >= 2 ? depth - 2 : 0])][spot.reason] += spot.share;
  }
  for (const auto& [where, reasons] : roles) {
    HotSpot role;
    role.where = where;
    double most = -1;
    for (const auto& [reason, share] : reasons) {
      role.share += share;
      if (share > most) {
        most = share;
        role.reason = reason;
      }
    }
    profile.roles.push_back(std::move(role));
  }
  if (roles.empty()) {
    profile.no_places =
        "this program's kernels were built without the lines of their sources; configure with "
        "-DFOVEA_KERNEL_LINES=ON and build again";
  }
}

std::vector<Profile> profile(const Card& card, const std::string& case_name,
                             const std::string& level, int device_index,
                             const std::string& program) {
  // Of a portable kernel the program carries the code of several architectures.
  const int arch = gpu::open_cuda_device(device_index)->info().arch();
  const std::string ncu = find_program("ncu");
  if (ncu.empty()) {
    fail("ncu is neither on the PATH nor in $CUDA_HOME/bin; it comes with CUDA (Nsight Compute)");
  }
  const TemporaryFile name({});
  const std::string report = name.path() + ".ncu-rep";
  std::vector<std::string> command = {ncu, "--clock-control", "none", "-f", "-o", name.path()};
  for (const char* const section :
       {"SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
        "MemoryWorkloadAnalysis_Tables", "WarpStateStats", "SchedulerStats", "Occupancy",
        "LaunchStats", "SourceCounters"}) {
    command.insert(command.end(), {"--section", section});
  }
  // Not part of these sections on every GPU.
  command.insert(command.end(), {"--metrics",
                                 "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum,"
                                 "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum,"
                                 "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"});
  command.insert(command.end(),
                 {program, "kernel", "run", card.name, "--gpu", std::to_string(device_index),
                  "--times", "1"});  // whatever the environment says
  if (!case_name.empty()) {
    command.insert(command.end(), {"--case", case_name});
  }
  if (!level.empty()) {
    command.insert(command.end(), {"--level", level});
  }
  const ProcessResult result = run_process(command);
  if (result.exit_code != 0 || !std::filesystem::exists(report)) {
    explain(result);
  }
  const std::string raw = page(report, {"raw"});
  const std::string source = page(report, {"source", "--print-source", "sass"});
  std::filesystem::remove(report);
  std::vector<Profile> profiles = read_profile(raw, source);
  if (profiles.empty()) {
    fail("ncu saw no kernel of {}", card.name);
  }
  for (Profile& one : profiles) {
    find_places(one, arch);
  }
  return profiles;
}

std::string verdict(const Profile& profile) {
  constexpr double kFull = 0.8;  // of a unit's peak; more is rarely seen for a whole launch
  const std::array<std::pair<double, std::string_view>, 5> units = {{
      {profile.tensor, "the matrix units"},
      {profile.issue, "instruction issue"},
      {profile.dram, "device memory"},
      {profile.l2, "the L2 cache"},
      {profile.shared, "shared memory and L1"},
  }};
  const auto& [share, unit] = *std::ranges::max_element(units);
  std::string text = share >= kFull
                         ? fmt::format("bound by {}: busy {} of the time", unit, percent(share))
                         : fmt::format("bound by latency: no unit is full, {} comes first with {}",
                                       unit, percent(share));
  const auto stall = std::ranges::find_if(profile.stalls, [](const auto& one) {
    return !one.first.starts_with("their turn") && one.first != "an instruction's fixed latency";
  });
  if (stall != profile.stalls.end()) {
    text += fmt::format("; warps wait most for {} ({})", stall->first, percent(stall->second));
  }
  return text;
}

std::string to_text(const Profile& profile) {
  std::string text = fmt::format(
      "{}: {:.4f} ms, {}\n"
      "  matrix units {}, issue {}, device memory {} ({:.0f} GB/s), L2 {}, shared memory and L1 "
      "{}\n"
      "  occupancy {} of {} (limited by {}), {} registers, {:.0f} bank conflicts\n",
      profile.kernel, profile.seconds * 1e3, verdict(profile), percent(profile.tensor),
      percent(profile.issue), percent(profile.dram), profile.dram_bytes_per_second * 1e-9,
      percent(profile.l2), percent(profile.shared), percent(profile.occupancy),
      percent(profile.occupancy_limit), profile.occupancy_reason, profile.registers,
      profile.bank_conflicts);
  for (const auto& [reason, share] : profile.stalls) {
    text += fmt::format("  {:>4} of waiting: {}\n", percent(share), reason);
  }
  if (!profile.no_places.empty()) {
    text += fmt::format("  no places in the sources: {}\n", profile.no_places);
  }
  for (const HotSpot& role : profile.roles) {
    text += fmt::format("  {:>4} of samples in {}, most waiting for {}\n", percent(role.share),
                        role.where, role.reason);
  }
  for (const HotSpot& spot : profile.hot_spots) {
    text += fmt::format("  {:>4} of samples at {} {}, waiting for {}\n", percent(spot.share),
                        spot.where, spot.instruction, spot.reason);
  }
  return text;
}

std::string to_json(const std::vector<Profile>& profiles) {
  const auto spots = [](const std::vector<HotSpot>& all) {
    Json json = Json::array();
    for (const HotSpot& spot : all) {
      json.push_back({{"where", spot.where},
                      {"instruction", spot.instruction},
                      {"reason", spot.reason},
                      {"share", spot.share}});
    }
    return json;
  };
  Json all = Json::array();
  for (const Profile& one : profiles) {
    Json stalls = Json::object();
    for (const auto& [reason, share] : one.stalls) {
      stalls[reason] = share;
    }
    all.push_back({{"kernel", one.kernel},
                   {"seconds", one.seconds},
                   {"verdict", verdict(one)},
                   {"tensor", one.tensor},
                   {"issue", one.issue},
                   {"dram", one.dram},
                   {"dram_bytes_per_second", one.dram_bytes_per_second},
                   {"l2", one.l2},
                   {"shared", one.shared},
                   {"occupancy", one.occupancy},
                   {"occupancy_limit", one.occupancy_limit},
                   {"occupancy_reason", one.occupancy_reason},
                   {"registers", one.registers},
                   {"bank_conflicts", one.bank_conflicts},
                   {"stalls", std::move(stalls)},
                   {"no_places", one.no_places},
                   {"roles", spots(one.roles)},
                   {"hot_spots", spots(one.hot_spots)}});
  }
  return all.dump(1);
}

}  // namespace fovea::lab
