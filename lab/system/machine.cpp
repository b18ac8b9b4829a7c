// Describes the machine of a measurement with data from /proc, the driver and this program's
// version.
#include "lab/system/machine.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "core/commit.hpp"
#include "core/thread_pool.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

/// Returns the value from a line "key : value" in a file in /proc.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) {
      const auto colon = line.find(':');
      const auto first = line.find_first_not_of(" \t", colon + 1);
      return first == std::string::npos ? "" : line.substr(first);
    }
  }
  return "unknown";
}

double rounded_to(double value, double unit) {
  return std::round(value / unit) * unit;
}

}  // namespace

std::string machine_json(const gpu::DeviceInfo& device, const std::string& driver_version,
                         const std::string& cublaslt_version) {
  utsname system{};
  uname(&system);
  const double memory_kib = std::atof(proc_value("/proc/meminfo", "MemTotal").c_str());
  Json versions = {{"CUDA", fmt::format("{}.{}", device.driver_version / 1000,
                                        device.driver_version % 1000 / 10)}};
  const std::string driver = driver_version.empty() && !device.pci_bus_id.empty()
                                 ? Nvml(device.pci_bus_id).driver_version()
                                 : driver_version;
  if (!driver.empty()) {
    versions["driver"] = driver;
  }
  if (!cublaslt_version.empty()) {
    versions["cuBLASLt"] = cublaslt_version;
  }
  const Json json = {
      {"date", today()},
      {"commit", built_from_commit},
      {"cpu",
       {{"model", proc_value("/proc/cpuinfo", "model name")},
        {"cores", available_threads()},
        {"isa", Json::array()}}},
      {"memory_gib", rounded_to(memory_kib / (1 << 20), 0.1)},
      {"kernel", system.release},
      {"gpu",
       {{"name", device.name},
        {"arch", device.arch()},
        {"multiprocessors", device.sm_count},
        {"memory_gib", rounded_to(static_cast<double>(device.memory_bytes) / (1 << 30), 0.1)},
        {"l2_mib", device.l2_bytes >> 20},
        {"most_sm_mhz", device.clock_khz / 1000}}},
      {"versions", std::move(versions)}};
  return json.dump();
}

}  // namespace fovea::lab
