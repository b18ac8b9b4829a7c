// Checks candidates at the gates, from the cheapest to the most expensive.
#include "lab/evolve/candidate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "kernels/archs.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/check/placement.hpp"
#include "lab/emulated/prove_kernel.hpp"
#include "lab/measure/rotation.hpp"
#include "lab/system/nvml.hpp"

namespace fovea::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Thrown when a candidate fails a gate.
struct Refused {
  CandidateGate gate;
  std::string reason;
};

[[noreturn]] void refuse(CandidateGate gate, std::string reason) {
  throw Refused{gate, std::move(reason)};
}

Plan baseline_plan(const CandidateSetting& setting, const Workload& workload,
                   const gpu::DeviceInfo& device) {
  if (!setting.level.empty()) {
    require_level(*setting.card, setting.level);
    return workload.plan_of_level(device, setting.level);
  }
  return {};
}

/// Returns the paths of files that differ from the sources embedded in the program.
std::vector<std::string> changed_files(const KernelSources& sources) {
  std::vector<std::string> changed;
  const auto& built_in = KernelSources::built_in().files();
  for (const auto& [path, text] : sources.files()) {
    const auto original = built_in.find(path);
    if (original == built_in.end() || original->second != text) {
      changed.push_back(path);
    }
  }
  return changed;
}

/// Returns the candidate's plan for a workload; its `support` says why if the candidate cannot run
/// the workload.
TunedPlan candidate_plan(const Workload& workload, const gpu::DeviceInfo& device,
                         gpu::KernelId kernel, const ParameterValues& values) {
  try {
    return workload.tuned(device, kernel, values);
  } catch (const Error& error) {  // the workload belongs to another operator
    return {.plan = {}, .kernel = kernel, .support = {error.what()}};
  }
}

void judge_resources(const gpu::KernelImage& image, const gpu::CtaSize& cta,
                     const gpu::DeviceInfo& device, CandidateResult& result) {
  result.registers = image.registers;
  result.spill_bytes = image.spill_store_bytes + image.spill_load_bytes;
  result.shared_bytes = static_cast<std::size_t>(image.shared_bytes) + cta.dynamic_shared_bytes;
  if (result.spill_bytes > 0 || image.stack_bytes > 0) {
    refuse(CandidateGate::kResources,
           fmt::format("the kernel spills {} bytes of registers and uses {} bytes of stack",
                       result.spill_bytes, image.stack_bytes));
  }
  // An SM allocates registers in units of eight per thread.
  const int registers = gpu::arch_up_to(device.arch(), gpu::kArchs).registers;
  if ((image.registers + 7) / 8 * 8 * cta.threads > registers) {
    refuse(CandidateGate::kResources,
           fmt::format("{} registers for each of {} threads exceed the {} of an SM",
                       image.registers, cta.threads, registers));
  }
  if (result.shared_bytes > device.shared_bytes_per_block) {
    refuse(CandidateGate::kResources,
           fmt::format("the kernel needs {} bytes of shared memory, but a CTA has at most {}",
                       result.shared_bytes, device.shared_bytes_per_block));
  }
}

}  // namespace

std::string_view to_string(CandidateGate gate) {
  constexpr std::array<std::string_view, 8> kNames = {"legal", "compile", "resources", "races",
                                                      "small", "mutants", "right",     "time"};
  return kNames.at(static_cast<std::size_t>(gate));
}

gpu::KernelId kernel_named(std::string_view name) {
  const std::optional<gpu::KernelId> kernel = gpu::find_kernel(name);
  if (!kernel) {
    fail_usage("there is no kernel '{}'", name);
  }
  return *kernel;
}

gpu::DeviceInfo assumed_device() {
  return {.name = "NVIDIA H200",
          .compute_major = gpu::kDefaultArch / 10,
          .compute_minor = gpu::kDefaultArch % 10,
          .sm_count = 132,
          .memory_bytes = std::size_t{139} << 30,
          .l2_bytes = std::size_t{60} << 20,
          .shared_bytes_per_block = gpu::arch_up_to(gpu::kDefaultArch, gpu::kArchs).shared_bytes,
          .clock_khz = 1980000,
          .driver_version = 13000};
}

double CandidateResult::speed_up() const {
  return timing.has_value() ? baseline_timing.value_or(Timing{}).seconds / timing->seconds : 0.0;
}

std::string_view CandidateResult::verdict() const {
  constexpr double kSame = 0.01;
  if (!timing.has_value()) {
    return "";
  }
  if (std::abs(speed_up() - 1.0) <= kSame) {
    return "SAME";
  }
  if (timing->ambiguous_with(baseline_timing.value_or(Timing{}))) {
    return "AMBIGUOUS";
  }
  return speed_up() > 1.0 ? "FASTER" : "SLOWER";
}

struct CandidateTrials::Prepared {
  gpu::KernelId kernel{};
  TunedPlan tuned;
  CompiledKernel compiled;
  CandidateResult result;
};

/// Data shared by all candidates for a case.
struct CandidateTrials::State {
  /// Data on the device, allocated when the first candidate is launched.
  struct OnDevice {
    OnDevice(gpu::Device& device, const Workload& workload, std::uint64_t seed)
        : stream(device.make_stream()),
          baseline(device),
          rotation(device, workload, *stream),
          values(expectations(workload, kTilesBeforeTiming, seed)),
          nvml(device.info().pci_bus_id) {}
    std::unique_ptr<gpu::Stream> stream;
    gpu::KernelCache baseline;
    Rotation rotation;
    std::vector<TileValues> values;
    Nvml nvml;
  };

  /// Checks the card's small cases that the candidate can run, and their mutants.
  void judge_cases(gpu::KernelCache& kernels, const Prepared& prepared, CandidateResult& result,
                   CandidateGate& gate) const {
    std::vector<TunedPlan> owners;
    const PlansOf plans = [&](const Workload& small) -> std::vector<Plan> {
      owners.push_back(candidate_plan(small, info, prepared.kernel, result.values));
      return owners.back().support ? std::vector{owners.back().plan} : std::vector<Plan>{};
    };
    bool any_small = false;
    bool any_mutant = false;
    for (const Case& card_case : setting.card->cases) {
      const bool is_included = card_case.check && (card_case.small || card_case.mutants);
      if (!is_included || plans(*card_case.make(setting.seed)).empty()) {
        continue;
      }
      gate = CandidateGate::kSmall;
      check_case(kernels, *setting.card, card_case, {.seed = setting.seed}, plans,
                 [&](const CheckResult& check) {
                   ++result.checked;
                   const bool mutant = check.what.starts_with("mutant");
                   gate = mutant ? CandidateGate::kMutants : CandidateGate::kSmall;
                   (mutant ? any_mutant : any_small) = true;
                   if (!check.passed) {
                     refuse(gate, fmt::format("{}{}{}: {}", check.case_name, mutant ? ", " : "",
                                              mutant ? check.what : "", check.reason));
                   }
                 });
    }
    for (const auto& [asked, gate_of_cases] : {std::pair(any_small, CandidateGate::kSmall),
                                               std::pair(any_mutant, CandidateGate::kMutants)}) {
      if (!asked) {
        result.skipped.emplace_back(gate_of_cases, "the kernel can run no such case of the card");
      }
    }
  }

  /// Runs the card's small cases on the emulator.
  void prove(const Prepared& prepared, CandidateResult& result) const {
    std::mutex mutex;
    std::vector<TunedPlan> owners;
    const ProofResult proof = prove_kernel(
        *setting.card,
        {.image = &prepared.compiled.image,
         .plans = [&](const Workload& small, const gpu::DeviceInfo& emulated) -> std::vector<Plan> {
           TunedPlan tuned = candidate_plan(small, emulated, prepared.kernel, result.values);
           const std::lock_guard lock(mutex);
           owners.push_back(std::move(tuned));
           return owners.back().support ? std::vector{owners.back().plan} : std::vector<Plan>{};
         },
         .seed = setting.seed});
    result.checked += proof.checked;
    if (!proof.failure.empty()) {
      refuse(proof.is_output_wrong ? CandidateGate::kSmall : CandidateGate::kRaces, proof.failure);
    }
    if (proof.checked == 0) {
      result.skipped.emplace_back(CandidateGate::kRaces, proof.why_none);
    }
  }

  void judge(gpu::KernelCache& kernels, const Plan& plan, CandidateResult& result) const {
    gpu::Stream& stream = *on_device->stream;
    Placement& first = on_device->rotation.first();
    const Verdict verdict = run_and_judge(kernels, *workload, first, plan, on_device->values,
                                          setting.card->tolerance, stream);
    ++result.checked;
    result.worst = verdict.worst;
    result.worst_relative = verdict.worst_relative;
    if (!verdict.passes()) {
      refuse(CandidateGate::kRight, verdict.reason);
    }
    const std::uint64_t once = first.fingerprint(stream);
    first.reset(stream, kOtherPoison);
    lab::run(kernels, *workload, first.operands(), plan, stream);
    if (first.fingerprint(stream) != once) {
      refuse(CandidateGate::kRight,
             "a second run on the same inputs gave different outputs: a race");
    }
  }

  /// Measures baseline and candidate in rounds, each with a sample of one right after a sample of
  /// the other.
  void time(gpu::KernelCache& kernels, const Plan& plan, CandidateResult& result) const {
    std::vector<Contender> contenders = {
        on_device->rotation.contender("candidate",
                                      [&](const Operands& operands, gpu::Stream& run_stream) {
                                        lab::run(kernels, *workload, operands, plan, run_stream);
                                      }),
        on_device->rotation.contender(
            "baseline", [&](const Operands& operands, gpu::Stream& run_stream) {
              lab::run(on_device->baseline, *workload, operands, baseline, run_stream);
            })};
    const std::vector<Timing> timings = time_in_turns(*device, on_device->nvml, contenders);
    result.timing = timings[0];
    result.baseline_timing = timings[1];
  }

  gpu::Device* device = nullptr;
  gpu::DeviceInfo info;
  KernelSources sources;
  CandidateSetting setting;
  std::unique_ptr<Workload> workload;
  Plan baseline;
  std::unique_ptr<OnDevice> on_device;
};

CandidateTrials::CandidateTrials(gpu::Device* device, const KernelSources& sources,
                                 const CandidateSetting& setting)
    : state_(std::make_unique<State>()) {
  state_->device = device;
  state_->info = device == nullptr ? assumed_device() : device->info();
  state_->sources = sources;
  state_->setting = setting;
  state_->workload = find_case(*setting.card, setting.case_name).make(setting.seed);
  state_->baseline = baseline_plan(setting, *state_->workload, state_->info);
}

CandidateTrials::~CandidateTrials() = default;

auto CandidateTrials::prepare(const CandidateSpec& spec) const -> std::shared_ptr<Prepared> {
  const gpu::DeviceInfo& info = state_->info;
  const Workload& workload = *state_->workload;
  auto prepared = std::make_shared<Prepared>();
  CandidateResult& result = prepared->result;
  // The baseline is not needed if there is no device and the candidate's kernel is given.
  if (state_->device != nullptr || spec.kernel.empty()) {
    prepared->kernel = workload.kernel_of(info, state_->baseline);
    result.baseline = gpu::info_of(prepared->kernel).name;
  }
  if (!spec.kernel.empty()) {
    prepared->kernel = kernel_named(spec.kernel);
  }
  const KernelEntry& entry = state_->sources.kernel(gpu::info_of(prepared->kernel).name);
  KernelSources sources = state_->sources;
  if (!spec.source.empty()) {
    sources.set_file("kernels/" + entry.source, spec.source);
  }
  result.kernel = gpu::info_of(prepared->kernel).name;
  result.values = entry.values;
  result.sources = changed_files(sources);
  for (const auto& [name, value] : spec.changes) {
    result.change.emplace_back(name, value);
  }
  try {
    result.values = state_->sources.changed(entry, spec.changes);
    if (std::string why = state_->sources.outside_of_table(entry, spec.changes); !why.empty()) {
      refuse(CandidateGate::kLegal, std::move(why));
    }
    prepared->tuned = workload.tuned(info, prepared->kernel, result.values);
    if (!prepared->tuned.support) {
      refuse(CandidateGate::kLegal, prepared->tuned.support.why);
    }
    CompileOptions options;
    options.target = compile_target(prepared->kernel, info.arch());
    try {
      prepared->compiled = compile(sources, prepared->kernel, result.values, options);
    } catch (const CompileError& error) {
      refuse(CandidateGate::kCompile, error.what());
    }
    result.compiler = prepared->compiled.compiler;
    result.compile_seconds = prepared->compiled.seconds;
    judge_resources(prepared->compiled.image, prepared->tuned.cta, info, result);
    state_->prove(*prepared, result);
  } catch (const Refused& refused) {
    result.failed_at = refused.gate;
    result.reason = refused.reason;
  }
  return prepared;
}

CandidateResult CandidateTrials::finish(const std::shared_ptr<Prepared>& prepared) {
  CandidateResult result = std::move(prepared->result);
  if (result.failed_at.has_value()) {
    return result;
  }
  using enum CandidateGate;
  if (state_->device == nullptr) {
    result.valid.reset();
    for (const CandidateGate gate : {kSmall, kMutants, kRight, kTime}) {
      result.skipped.emplace_back(gate, "no GPU; the gates before them assume an H200");
    }
    return result;
  }
  result.valid = true;
  CandidateGate gate = kRight;
  try {
    gpu::Device& device = *state_->device;
    gpu::KernelCache kernels(device, {&prepared->compiled.image});
    state_->judge_cases(kernels, *prepared, result, gate);
    gate = kRight;
    if (state_->on_device == nullptr) {
      state_->on_device =
          std::make_unique<State::OnDevice>(device, *state_->workload, state_->setting.seed);
    }
    state_->judge(kernels, prepared->tuned.plan, result);
    gate = kTime;
    state_->time(kernels, prepared->tuned.plan, result);
  } catch (const Refused& refused) {
    gate = refused.gate;
    result.reason = refused.reason;
  } catch (const Error& error) {  // the driver's message
    result.reason = error.what();
  }
  if (!result.reason.empty()) {
    result.valid = false;
    result.failed_at = gate;
  }
  return result;
}

std::vector<TuningSpace> tuning_spaces(const gpu::DeviceInfo& device, const KernelSources& sources,
                                       const CandidateSetting& setting) {
  const std::unique_ptr<Workload> workload =
      find_case(*setting.card, setting.case_name).make(setting.seed);
  std::vector<Plan> plans = {baseline_plan(setting, *workload, device)};
  if (setting.level.empty()) {
    plans = workload->plans(device);
  }
  std::vector<TuningSpace> spaces;
  for (const Plan& plan : plans) {
    const std::string kernel(gpu::info_of(workload->kernel_of(device, plan)).name);
    if (std::ranges::find(spaces, kernel, &TuningSpace::kernel) != spaces.end()) {
      continue;
    }
    const KernelEntry& entry = sources.kernel(kernel);
    const auto ranges = sources.parameters(entry.family);
    spaces.push_back({.kernel = kernel,
                      .plan = to_string(plan),
                      .family = entry.family,
                      .values = entry.values,
                      .ranges = {ranges.begin(), ranges.end()}});
  }
  return spaces;
}

std::string to_json(const CandidateResult& result) {
  Json skipped = Json::object();
  for (const auto& [gate, why] : result.skipped) {
    skipped[std::string(to_string(gate))] = why;
  }
  const auto number = [](const std::optional<double>& value) {
    return value.has_value() ? Json(*value) : Json(nullptr);
  };
  const bool timed = result.timing.has_value();
  const Timing timing = result.timing.value_or(Timing{});
  const auto if_timed = [&](const Json& value) { return timed ? value : Json(nullptr); };
  const bool compiled = !result.compiler.empty();
  const auto if_compiled = [&](const Json& value) { return compiled ? value : Json(nullptr); };
  const Json json = {
      {"valid", result.valid.has_value() ? Json(*result.valid) : Json(nullptr)},
      {"failed_at",
       result.failed_at.has_value() ? Json(to_string(*result.failed_at)) : Json(nullptr)},
      {"reason", result.reason},
      {"untimed", skipped.value("time", Json(nullptr))},
      {"skipped", std::move(skipped)},
      {"kernel", result.kernel},
      {"parameters", values_json(result.values)},
      {"change", values_json(result.change)},
      {"changed_sources", result.sources},
      {"compiler", result.compiler},
      {"compile_seconds", if_compiled(result.compile_seconds)},
      {"registers", if_compiled(result.registers)},
      {"shared_bytes", if_compiled(result.shared_bytes)},
      {"spill_bytes", if_compiled(result.spill_bytes)},
      {"checked", result.checked},
      {"max_abs", number(result.worst)},
      {"max_rel", number(result.worst_relative)},
      {"seconds", if_timed(timing.seconds)},
      {"spread", if_timed(timing.spread)},
      {"samples", timing.samples},
      {"sm_mhz", timing.sm_mhz},
      {"watts", timing.watts},
      {"baseline", result.baseline},
      {"baseline_seconds", if_timed(result.baseline_timing.value_or(Timing{}).seconds)},
      {"baseline_spread", if_timed(result.baseline_timing.value_or(Timing{}).spread)},
      {"speed_up", if_timed(result.speed_up())},
      {"verdict", if_timed(result.verdict())}};
  return json.dump();
}

std::string to_json(const std::vector<TuningSpace>& spaces) {
  Json all = Json::array();
  for (const TuningSpace& space : spaces) {
    Json ranges = Json::object();
    for (const ParameterRange& range : space.ranges) {
      ranges[range.name] = range.values;
    }
    all.push_back({{"kernel", space.kernel},
                   {"plan", space.plan},
                   {"family", space.family},
                   {"values", values_json(space.values)},
                   {"parameters", std::move(ranges)}});
  }
  return all.dump(1);
}

}  // namespace fovea::lab
