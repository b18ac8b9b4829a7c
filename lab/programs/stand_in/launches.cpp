// Launches of a program: they wait until a result of theirs is needed, so that grids which may
// overlap are run together.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "fovea_emulator/error.hpp"
#include "io/text.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/findings_order.hpp"
#include "lab/emulation/schedule_search.hpp"
#include "lab/programs/stand_in/gpu.hpp"

namespace fovea::programs {
namespace {

using Kind = emu::FindingKind;

// Returns the error that a GPU reports.
int error_of(Kind kind) {
  switch (kind) {
    case Kind::kOutOfBounds:
      return kIllegalAddress;
    case Kind::kMisaligned:
      return kMisalignedAddress;
    case Kind::kDeadlock:
    case Kind::kNoProgress:
      return kLaunchTimeout;
    case Kind::kAssertion:
      return kAssert;
    case Kind::kIllegalOperand:
    case Kind::kIllegalTensorMap:
      return kIllegalInstruction;
    default:
      return kLaunchFailure;
  }
}

std::vector<std::byte> parameters_of(const emu::KernelHandle& kernel,
                                     const LaunchRequest& request) {
  const std::vector<emu::Parameter>& parameters = kernel.parameters;
  std::vector<std::byte> bytes(
      parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes);
  if (!request.buffer.empty()) {
    if (request.buffer.size() < bytes.size()) {
      throw CallError{
          kInvalidValue,
          fmt::format("{}: the buffer of arguments has {} bytes; expected {}",
                      emulation::plain_name(kernel.name), request.buffer.size(), bytes.size())};
    }
    std::ranges::copy(request.buffer.first(bytes.size()), bytes.begin());
    return bytes;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (request.arguments == nullptr || request.arguments[i] == nullptr) {
      throw CallError{kInvalidValue, fmt::format("{}: the argument {} is missing",
                                                 emulation::plain_name(kernel.name), i)};
    }
    std::memcpy(bytes.data() + parameters[i].offset, request.arguments[i], parameters[i].bytes);
  }
  return bytes;
}

std::uint64_t product(const std::array<std::uint32_t, 3>& sizes) {
  return std::uint64_t{sizes[0]} * sizes[1] * sizes[2];
}

}  // namespace

void Gpu::check_cooperative(Function& function, const emu::LaunchConfig& config) {
  const auto threads =
      static_cast<int>(std::min<std::uint64_t>(product(config.block), GpuLimits::kMaxThreads + 1));
  const int room =
      blocks_per_sm(*this, function, threads, config.dynamic_shared_bytes) * GpuLimits::kSms;
  if (product(config.grid) > static_cast<std::uint64_t>(room)) {
    throw CallError{kTooLargeCooperativeLaunch,
                    fmt::format("{}: a cooperative launch has {} blocks, but the emulated GPU has "
                                "room for {}",
                                emulation::plain_name(function.name), product(config.grid), room)};
  }
}

void Gpu::launch(const LaunchRequest& request) {
  if (failure_ != kSuccess) {
    throw CallError{failure_};
  }
  Function& function = *request.function;
  const emu::KernelHandle& kernel = handle(function);
  const emu::KernelInfo kernel_info = info(function);
  const std::string name = emulation::plain_name(function.name);
  const std::size_t limit =
      function.max_dynamic_shared_bytes >= 0
          ? static_cast<std::size_t>(function.max_dynamic_shared_bytes)
          : GpuLimits::kSharedBytes -
                std::min<std::size_t>(GpuLimits::kSharedBytes, kernel_info.static_shared_bytes);
  if (request.config.dynamic_shared_bytes > limit) {
    throw CallError{
        kInvalidValue,
        fmt::format("{}: the launch asks for {} bytes of dynamic shared memory, but at most {} are "
                    "allowed; cudaFuncSetAttribute with MaxDynamicSharedMemorySize allows more",
                    name, request.config.dynamic_shared_bytes, limit)};
  }
  Pending pending{.launch = {.kernel = kernel,
                             .config = request.config,
                             .parameters = parameters_of(kernel, request)},
                  .stream = request.stream};
  emu::LaunchConfig& config = pending.launch.config;
  config.is_cooperative = request.is_cooperative;
  if (std::ranges::any_of(kernel_info.cluster, [](std::uint32_t blocks) { return blocks != 0; }) &&
      config.cluster == std::array<std::uint32_t, 3>{1, 1, 1}) {
    config.cluster = kernel_info.cluster;
  }
  try {
    if (request.is_cooperative) {
      check_cooperative(function, emu::Device::config_in_blocks(pending.launch));
    }
    static_cast<void>(device_->host_bytes_of_run({&pending.launch, 1}, settings_.run));
  } catch (const emu::Error& error) {
    std::string message = error.what();
    if (message.starts_with(function.name)) {
      message.replace(0, function.name.size(), name);
    }
    throw CallError{kInvalidConfiguration, message};
  }
  // A dependent launch overlaps the one before it in its stream, if that has not run yet.
  config.is_dependent =
      config.is_dependent && !pending_.empty() && pending_.back().stream == request.stream;
  if (!config.is_dependent) {
    run_pending();
    if (failure_ != kSuccess) {
      throw CallError{failure_};
    }
  }
  pending.number = ++launches_;
  pending.is_searched = settings_.searches(pending.number, function.name);
  pending_.push_back(std::move(pending));
}

void Gpu::synchronize() {
  run_pending();
  if (failure_ != kSuccess) {
    throw CallError{failure_};
  }
}

void Gpu::run_pending() {
  const Group group = std::exchange(pending_, {});
  if (group.empty() || failure_ != kSuccess) {
    return;
  }
  write_host_changes();
  run_group(group);
  read_device_changes();
}

void Gpu::run_group(const Group& group) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<emu::Launch> launches;
  const emu::RunOptions& options = settings_.run;
  bool is_searched = false;
  for (const Pending& pending : group) {
    launches.push_back(pending.launch);
    is_searched = is_searched || pending.is_searched;
  }
  ScheduleTotals totals(1, settings_.all);  // of the schedules behind the program's own
  emu::Report program_report;
  try {
    if (is_searched) {
      search(launches, options, totals);
    }
    program_report = run_for_program(launches, options);
  } catch (const emu::Error& error) {
    failure_ = kLaunchFailure;
    journal_.add_refusal(error.what());
    return;
  }
  LaunchRecord record{
      .number = group.back().number,
      .kernel = emulation::plain_name(group.back().launch.kernel.name),
      .schedules = 1 + totals.schedules(),
      .operations = program_report.steps + totals.operations(),
      .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  for (const Pending& pending : group) {
    LaunchRecord other = record;
    if (pending.number != record.number) {  // the last of the group stands for its operations
      other = {.number = pending.number,
               .kernel = emulation::plain_name(pending.launch.kernel.name)};
    }
    other.is_chosen = pending.is_searched;
    journal_.add(other);
  }
  journal_.add_ignored(program_report.ignored_by);
  journal_.add_ignored(totals.ignored_by());
  add_findings(group, record, program_report.findings, options.seed);
  for (auto& [schedule, findings] : totals.findings()) {
    add_findings(group, record, findings, options.seed + schedule);
  }
}

void Gpu::add_findings(const Group& group, const LaunchRecord& record,
                       std::vector<emu::Finding>& findings, std::uint64_t seed) {
  emulation::put_causes_first(findings);
  emulation::say_what_raises_limits(findings);
  for (emu::Finding& finding : findings) {
    if (std::string place = place_text(finding.global); finding.global != 0 && !place.empty()) {
      finding.place = std::move(place);
    }
    LaunchRecord found = record;
    for (const Pending& pending : group) {
      if (emu::source_name(pending.launch.kernel.name) == finding.kernel) {
        found.number = pending.number;
      }
    }
    journal_.add_finding(found, finding, seed);
  }
}

void Gpu::search(const std::vector<emu::Launch>& launches, const emu::RunOptions& options,
                 ScheduleTotals& totals) {
  const std::uint64_t count = std::max<std::uint64_t>(settings_.schedules, 1);
  const std::size_t bytes = device_->host_bytes_of_run(launches, options);
  const std::size_t room =
      std::max<std::size_t>(settings_.max_memory / std::max(bytes, std::size_t{1}), 1);
  emulation::search_schedules(
      {.begin = 1,  // the first one is the program's
       .end = count,
       .all = settings_.all,
       .threads = static_cast<int>(std::min(static_cast<std::size_t>(settings_.threads), room))},
      [&](std::size_t schedule) {
        emu::RunOptions run = options;
        run.seed += schedule;
        emu::Device copy(*device_);
        emu::Report report = copy.run(launches, run);
        const bool is_clean = report.is_clean();
        totals.add(schedule, std::move(report));
        return is_clean;
      });
}

emu::Report Gpu::run_for_program(const std::vector<emu::Launch>& launches,
                                 const emu::RunOptions& options) {
  emu::RunOptions run = options;
  run.max_findings = SIZE_MAX;
  emu::Report report = device_->run(launches, run);
  // Printed between what the program prints itself.
  static_cast<void>(std::fwrite(report.printed.data(), 1, report.printed.size(), stdout));
  if (!report.has_ended) {
    failure_ =
        report.findings.empty() ? int{kLaunchFailure} : error_of(report.findings.back().kind);
  }
  return report;
}

int blocks_per_sm(Gpu& gpu, Function& function, int threads, std::size_t dynamic_shared_bytes) {
  if (threads <= 0 || threads > GpuLimits::kMaxThreads) {
    throw CallError{kInvalidValue, fmt::format("a block has {} threads; expected 1 to {}", threads,
                                               GpuLimits::kMaxThreads)};
  }
  const std::size_t shared = GpuLimits::kReservedSharedBytes + dynamic_shared_bytes +
                             gpu.info(function).static_shared_bytes;
  return static_cast<int>(std::min({static_cast<std::size_t>(GpuLimits::kBlocksPerSm),
                                    static_cast<std::size_t>(GpuLimits::kThreadsPerSm / threads),
                                    GpuLimits::kSharedBytesPerSm / shared}));
}

namespace {

// Ends the process where the settings are malformed: the program could not be told.
Settings settings_or_exit() {
  try {
    return settings_from_environment();
  } catch (const Error& error) {
    constexpr int kUsage = 2;
    static_cast<void>(std::fprintf(stderr, "fovea: %s\n", io::printable(error.what()).c_str()));
    std::_Exit(kUsage);
  }
}

}  // namespace

Gpu::Gpu() : settings_(settings_or_exit()), journal_(settings_) {}

Gpu& Gpu::instance() {
  // Never destroyed: the program's own destructors may still use it.
  static Gpu* const gpu = new Gpu();  // NOLINT(*-owning-memory)
  return *gpu;
}

}  // namespace fovea::programs
