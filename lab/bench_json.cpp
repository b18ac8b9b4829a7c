// A bench report as JSON: the machine, the ceilings and every figure.
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "io/atomic_file.hpp"
#include "lab/bench_cards.hpp"
#include "lab/process.hpp"

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

/// What git prints, without the line's end; empty when it fails.
std::string output_of_git(std::vector<std::string> arguments) {
  if (find_program("git").empty()) {
    return {};
  }
  arguments.insert(arguments.begin(), "git");
  const std::string text = run_process(arguments).output;
  return text.substr(0, text.find('\n'));
}

/// The commit measured: FOVEA_BENCH_COMMIT on a machine without the checkout, else git's.
std::string commit() {
  if (const char* const named = std::getenv("FOVEA_BENCH_COMMIT"); named != nullptr) {
    return named;
  }
  const std::string head = output_of_git({"rev-parse", "--short=12", "HEAD"});
  if (head.empty()) {
    return "unknown";
  }
  const bool changed = !output_of_git({"status", "--porcelain", "--untracked-files=no"}).empty();
  return head + (changed ? "-modified" : "");
}

/// The value of a line "key : value" of a file in /proc.
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

Json machine(const BenchReport& report) {
  utsname system{};
  uname(&system);
  const double memory_kib = std::atof(proc_value("/proc/meminfo", "MemTotal").c_str());
  Json versions = {{"CUDA", fmt::format("{}.{}", report.device.driver_version / 1000,
                                        report.device.driver_version % 1000 / 10)}};
  if (!report.driver_version.empty()) {
    versions["driver"] = report.driver_version;
  }
  if (!report.cublaslt_version.empty()) {
    versions["cuBLASLt"] = report.cublaslt_version;
  }
  return {{"date", today()},
          {"commit", commit()},
          {"cpu",
           {{"model", proc_value("/proc/cpuinfo", "model name")},
            {"cores", available_threads()},
            {"isa", Json::array()}}},
          {"memory_gib", rounded_to(memory_kib / (1 << 20), 0.1)},
          {"kernel", system.release},
          {"gpu",
           {{"name", report.device.name},
            {"arch", report.device.arch()},
            {"multiprocessors", report.device.sm_count},
            {"memory_gib",
             rounded_to(static_cast<double>(report.device.memory_bytes) / (1 << 30), 0.1)},
            {"l2_mib", report.device.l2_bytes >> 20},
            {"most_sm_mhz", report.device.clock_khz / 1000}}},
          {"versions", std::move(versions)}};
}

Json timing(const Timing& figure) {
  return {{"seconds", figure.seconds},
          {"sustained", figure.sustained},
          {"fastest", figure.fastest},
          {"spread", figure.spread},
          {"samples", figure.samples},
          {"dropped", figure.dropped},
          {"power_capped", figure.power_capped},
          {"sm_mhz", figure.sm_mhz},
          {"watts", figure.watts}};
}

Json to_json(const BenchFigure& figure) {
  Json json = {{"card", figure.card},
               {"case", figure.case_name},
               {"plan", figure.plan},
               {"description", figure.description},
               {"flops", figure.flops},
               {"bytes", figure.bytes},
               {"matrix_ceiling", figure.matrix_ceiling},
               {"error", figure.verdict.error},
               {"framework_error", figure.verdict.framework_error},
               {"difference", figure.verdict.difference},
               {"tile_difference", figure.verdict.tile_difference}};
  json.update(timing(figure.timing));
  if (figure.smoke.has_value()) {
    json["checksum"] = {{"sum", figure.smoke->sum},
                        {"expected", figure.smoke->expected},
                        {"outputs", figure.smoke->count}};
  }
  json["peers"] = Json::array();
  for (const PeerFigure& peer : figure.peers) {
    Json entry = {{"name", peer.timing.name},
                  {"ratio", peer.ratio},
                  {"sustained_ratio", peer.sustained_ratio},
                  {"ambiguous", peer.ambiguous},
                  {"same_result", peer.same_result},
                  {"wrong", peer.wrong}};
    entry.update(timing(peer.timing));
    json["peers"].push_back(std::move(entry));
  }
  return json;
}

Json whole(const BenchReport& report) {
  Json figures = Json::array();
  for (const BenchFigure& figure : report.figures) {
    figures.push_back(to_json(figure));
  }
  return {{"machine", machine(report)},
          {"kernels",
           {{"copy_bytes_per_second", report.ceilings.copy_bytes_per_second},
            {"bf16_flops", report.ceilings.bf16_flops},
            {"e4m3_flops", report.ceilings.e4m3_flops},
            {"missing", report.missing},
            {"figures", std::move(figures)}}}};
}

/// What a report's file holds so far; nothing when there is none, or an empty one.
Json sections_of(const std::string& path) {
  std::ifstream file(path);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    return Json::object();
  }
  Json json = Json::parse(file, nullptr, false);
  if (!json.is_object()) {
    fail("{} holds something else than a report, and stays as it is: name another file", path);
  }
  return json;
}

}  // namespace

std::string to_json(const BenchReport& report) {
  return whole(report).dump(1);
}

void check_json_file(const std::string& path) {
  (void)sections_of(path);
}

void write_json(const BenchReport& report, const std::string& path) {
  Json json = sections_of(path);
  json.erase("kernels");
  json.update(whole(report));
  io::write_file_atomically(path, json.dump(1) + '\n');
}

}  // namespace fovea::lab
