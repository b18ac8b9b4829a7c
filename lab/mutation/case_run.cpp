// Runs a card's case on the emulator.
#include "lab/mutation/case_run.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/launch/launch.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/placement.hpp"
#include "lab/emulated/check_emulated.hpp"
#include "lab/mutation/mutants.hpp"

namespace fovea::mutation {
namespace {

constexpr std::size_t kMaxTiles = 48;
/// Prefix of those errors of gpu::EmuDevice that are not findings, but unsupported PTX or an
/// invalid call.
constexpr std::string_view kRefused = "the emulator: ";

std::string launch_text(const gpu::Launch& launch) {
  const auto text = [](const gpu::Dim3& size) {
    return fmt::format("{}x{}x{}", size.x, size.y, size.z);
  };
  const gpu::LaunchConfig& config = launch.config;
  return fmt::format("{} {} {} {} {} {}", gpu::info_of(launch.kernel).name, text(config.grid),
                     text(config.block), text(config.cluster), config.dynamic_shared_bytes,
                     config.dependent);
}

}  // namespace

CaseInputs::CaseInputs(const lab::Card& card, const lab::Case& card_case, std::uint64_t seed)
    : card_(card), name_(card_case.name), workload_(card_case.make(seed)), seed_(seed) {}

std::vector<lab::TileValues> CaseInputs::expected() const {
  std::call_once(once_, [this] { expected_ = lab::expectations(*workload_, kMaxTiles, seed_); });
  return expected_;
}

CaseRun::CaseRun(std::shared_ptr<const CaseInputs> inputs, lab::Plan plan, int arch)
    : inputs_(std::move(inputs)), plan_(plan), arch_(arch) {
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device({.arch = arch_});
  const std::unique_ptr<gpu::Stream> stream = device->make_stream();
  const lab::Placement placement(*device, inputs_->workload(), *stream);
  for (const gpu::Launch& launch :
       inputs_->workload().launches(*device, placement.operands(), plan_)) {
    launches_ += launch_text(launch) + '\n';
    if (std::ranges::find(kernels_, launch.kernel) == kernels_.end()) {
      kernels_.push_back(launch.kernel);
    }
  }
}

std::string CaseRun::name() const {
  const std::string plan = lab::to_string(plan_);
  return fmt::format("{} {}{}{}", inputs_->card().name, inputs_->name(), plan.empty() ? "" : ", ",
                     plan);
}

const Reach& CaseRun::reach() const {
  std::call_once(once_, [this] {
    Reach reach;
    // Remembers the lines seen in the current kernel, since most events repeat them.
    std::string_view kernel;
    std::set<int>* lines = nullptr;
    std::vector<bool> seen;
    gpu::EmuOptions options;
    options.edit_map = [&](const gpu::TensorMapDesc& map) {
      gpu::TensorMapDesc other = map;
      reach.tensor_maps.push_back(change_swizzle(other));
    };
    options.ran = [&](std::string_view name, int line) {
      ++reach.steps;
      if (lines == nullptr || name.data() != kernel.data()) {
        lines = &reach.lines[std::string(name)];
        kernel = name;
        seen.clear();
      }
      const auto index = static_cast<std::size_t>(line);
      if (index >= seen.size()) {
        seen.resize(index + 1);
      }
      if (!seen[index]) {
        seen[index] = true;
        lines->insert(line);
      }
    };
    RunResult result = run(options, false);
    if (result.is_clean()) {
      result = run({}, true);
    }
    if (!result.is_clean()) {
      fail("{} fails even without a mutation: {}", name(),
           result.finding.empty() ? result.wrong : result.finding);
    }
    reach_ = std::move(reach);
  });
  return reach_;
}

RunResult CaseRun::run(gpu::EmuOptions options, bool overlapping) const {
  options.arch = arch_;
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device(options);
  gpu::KernelCache kernels(*device);
  for (const gpu::KernelId kernel : kernels_) {
    static_cast<void>(kernels.get(kernel));  // throws for unsupported PTX, which is not a finding
  }
  const std::unique_ptr<gpu::Stream> stream = device->make_stream();
  std::vector<lab::TileValues> values = inputs_->expected();
  RunResult result;
  try {
    lab::Placement placement(*device, inputs_->workload(), *stream);
    result.wrong = lab::run_and_judge(kernels, inputs_->workload(), placement, plan_, values,
                                      inputs_->card().tolerance, *stream)
                       .reason;
    result.hash = placement.fingerprint(*stream);
    if (result.is_clean() && overlapping) {
      lab::run_overlapping(kernels, inputs_->workload(), placement.operands(), plan_, *stream);
    }
  } catch (const Error& error) {
    result.finding = error.what();
    if (result.finding.starts_with(kRefused)) {
      throw;
    }
  }
  return result;
}

std::vector<std::unique_ptr<CaseRun>> case_runs(const std::vector<const lab::Card*>& cards,
                                                const std::string& only_case, int arch,
                                                std::uint64_t seed) {
  const gpu::DeviceInfo device = gpu::open_emulated_device({.arch = arch})->info();
  std::vector<std::unique_ptr<CaseRun>> runs;
  const auto add = [&](const lab::Card& card, const lab::Case& card_case) {
    const auto inputs = std::make_shared<const CaseInputs>(card, card_case, seed);
    if (!inputs->workload().can_run(device)) {
      return;
    }
    std::set<std::string> known_launches;
    for (const lab::Plan& plan : inputs->workload().plans(device)) {
      auto run = std::make_unique<CaseRun>(inputs, plan, arch);
      if (known_launches.insert(run->launches()).second) {
        runs.push_back(std::move(run));
      }
    }
  };
  for (const lab::Card* const card : cards) {
    if (!lab::carries_kernels(*card, device)) {
      continue;
    }
    if (!only_case.empty()) {
      for (const lab::Case& card_case : lab::select_cases(*card, only_case)) {
        add(*card, card_case);
      }
      continue;
    }
    for (const lab::Case& card_case : card->cases) {
      if (card_case.check && lab::is_quick_to_emulate(card_case)) {
        add(*card, card_case);
      }
    }
    for (const std::string& problem : card->emulated) {
      add(*card, lab::find_case(*card, problem));
    }
  }
  std::ranges::stable_sort(runs, {}, [](const auto& run) { return run->flops(); });
  return runs;
}

}  // namespace fovea::mutation
