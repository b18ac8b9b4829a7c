// Repeats one schedule of a case on the emulator.
#include "lab/emulated/replay_case.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/device_name.hpp"
#include "core/error.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "gpu/emulated/emu_orders.hpp"
#include "lab/check/judge.hpp"
#include "lab/check/placement.hpp"
#include "lab/check/prepared_case.hpp"
#include "lab/emulated/check_emulated.hpp"

namespace fovea::lab {
namespace {

constexpr std::size_t kMaxTiles = 48;

std::string case_to_run(const Card& card, const std::string& name) {
  if (!name.empty()) {
    return name;
  }
  const auto quick = std::ranges::find_if(card.cases, [](const Case& card_case) {
    return card_case.check && is_quick_to_emulate(card_case);
  });
  if (quick == card.cases.end()) {
    fail("no case of {} is small enough to be the default; choose one with --case", card.name);
  }
  return quick->name;
}

/// Quotes a text for a shell if necessary.
std::string quoted(const std::string& text) {
  const bool is_plain = std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-=,.:/").find(c) != std::string_view::npos;
  });
  return is_plain ? text : "'" + text + "'";
}

/// Runs the case and returns what is wrong with the outputs.
class Replayer {
 public:
  Replayer(gpu::Device& device, const Card& card, const CaseSpec& spec)
      : device_(device),
        card_(card),
        prepared_(device, spec),
        stream_(device.make_stream()),
        placement_(device, prepared_.workload(), *stream_),
        values_(expectations(prepared_.workload(), kMaxTiles, spec.seed)) {}

  [[nodiscard]] const PreparedCase& prepared() const { return prepared_; }

  /// Poisons the outputs with the same bytes as the check: the first schedule with other ones than
  /// the later schedules.
  std::string run(const ReplayOptions& options, Verdict& verdict) {
    if (options.overlapping) {
      begin(options.seed, options.schedule, options.trace);
      prepared_.run_overlapping(placement_.operands(), *stream_);
      return "";
    }
    std::uint64_t first = 0;
    if (options.schedule > 0) {
      begin(options.seed, 0, {});
      run_on(kPoison);
      first = placement_.fingerprint(*stream_);
    }
    begin(options.seed, options.schedule, options.trace);
    if (options.schedule == 0) {
      verdict = prepared_.judge(placement_, values_, card_.tolerance, *stream_);
      return verdict.reason.empty() ? smoke_fault(options.seed) : verdict.reason;
    }
    run_on(kOtherPoison);
    placement_.read(values_, *stream_);
    verdict = lab::judge(values_, card_.tolerance);
    const bool differs = placement_.fingerprint(*stream_) != first;
    return differs ? "the outputs differ from those of schedule 0" : verdict.reason;
  }

 private:
  void begin(std::uint64_t seed, int schedule, emu::TraceFunction trace) {
    gpu::begin_order(device_, order_seed(seed, schedule), std::move(trace));
  }
  void run_on(std::uint8_t poison) {
    placement_.reset(*stream_, poison);
    prepared_.run(placement_.operands(), *stream_);
    stream_->synchronize();
  }
  /// Repeats the smoke run, which the check does with the first schedule.
  std::string smoke_fault(std::uint64_t seed) {
    begin(seed, 0, {});
    const auto smoke = prepared_.run_smoke(*stream_);
    return smoke.has_value() ? smoke->fault() : "";
  }

  gpu::Device& device_;
  const Card& card_;
  PreparedCase prepared_;
  std::unique_ptr<gpu::Stream> stream_;
  Placement placement_;
  std::vector<TileValues> values_;
};

}  // namespace

Replay replay_case(const Card& card, const ReplayOptions& options) {
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device({.arch = options.arch});
  Replayer runner(*device, card,
                  {.card = &card,
                   .case_name = case_to_run(card, options.case_name),
                   .plan = options.plan,
                   .seed = options.seed});
  Replay replay;
  replay.result.seed = options.seed;
  replay.result.card = card.name;
  replay.result.case_name = runner.prepared().case_name();
  replay.result.what = options.plan;
  replay.result.description = runner.prepared().workload().describe();
  try {
    replay.result.reason = runner.run(options, replay.result.verdict);
  } catch (const gpu::KernelFault& fault) {
    replay.result.reason = fault.what();
    replay.findings = fault.findings();
  }
  replay.result.passed = replay.result.reason.empty();
  return replay;
}

std::string replay_arguments(const std::string& card, const ReplayOptions& options) {
  return fmt::format(
      "{}{} --case {}{} --seed {} --schedule {}{}", card,
      options.arch == gpu::kDefaultArch ? ""
                                        : fmt::format(" --device {}", emulator_name(options.arch)),
      quoted(options.case_name), options.plan.empty() ? "" : " --plan " + quoted(options.plan),
      options.seed, options.schedule, options.overlapping ? " --overlapping" : "");
}

}  // namespace fovea::lab
