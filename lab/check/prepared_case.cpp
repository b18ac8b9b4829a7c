// Finds a case's plan, compiles kernels that differ from those embedded in the program, and
// launches the case.
#include "lab/check/prepared_case.hpp"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::lab {
namespace {

Plan find_plan(const CaseSpec& spec, const Workload& workload, const gpu::DeviceInfo& device) {
  if (!spec.level.empty() && !spec.plan.empty()) {
    fail_usage("cannot use both the level '{}' and the plan '{}'; omit one of them", spec.level,
               spec.plan);
  }
  if (!spec.level.empty()) {
    require_level(*spec.card, spec.level);
    return workload.plan_of_level(device, spec.level);
  }
  if (spec.plan.empty()) {
    return {};
  }
  const std::vector<Plan> plans = workload.plans(device);
  std::vector<std::string> names;
  for (const Plan& plan : plans) {
    names.push_back(lab::to_string(plan));
    if (names.back() == spec.plan) {
      return plan;
    }
  }
  std::erase(names, "");
  fail_usage("{} has no plan '{}'; there are: {}", workload.describe(), spec.plan,
             names.empty() ? "none" : fmt::format("{}", fmt::join(names, "; ")));
}

}  // namespace

PreparedCase::PreparedCase(gpu::Device& device, const CaseSpec& spec) {
  const Case card_case = find_case(*spec.card, spec.case_name);
  case_name_ = card_case.name;
  workload_ = card_case.make(spec.seed);
  const gpu::DeviceInfo& info = device.info();
  if (const Support support = workload_->can_run(info); !support) {
    fail("{} {}: {}", spec.card->name, case_name_, support.why);
  }
  tuned_.plan = find_plan(spec, *workload_, info);
  const KernelSources sources =
      spec.sources.empty() ? KernelSources::built_in() : KernelSources::from_folder(spec.sources);
  ParameterValues values;
  if (!spec.changes.empty()) {
    const gpu::KernelId kernel = workload_->kernel_of(info, tuned_.plan);
    const KernelEntry& entry = sources.kernel(gpu::info_of(kernel).name);
    values = sources.changed(entry, spec.changes);
    if (const std::string why = sources.outside_of_table(entry, spec.changes); !why.empty()) {
      fail("{} {}: {}", spec.card->name, case_name_, why);
    }
    tuned_ = workload_->tuned(info, kernel, values);
    if (!tuned_.support) {
      fail("{} {}: {}", spec.card->name, case_name_, tuned_.support.why);
    }
  }
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  const Placement placement(device, *workload_, *stream);
  std::vector<const gpu::KernelImage*> images;
  for (const gpu::Launch& launch : workload_->launches(device, placement.operands(), tuned_.plan)) {
    const std::string name(gpu::info_of(launch.kernel).name);
    if (std::ranges::find(names_, name) != names_.end()) {
      continue;
    }
    names_.push_back(name);
    const bool changed = !spec.changes.empty() && launch.kernel == tuned_.kernel;
    if (changed || !spec.sources.empty()) {
      compiled_.push_back(std::make_unique<CompiledKernel>(
          compile(sources, launch.kernel, changed ? values : sources.kernel(name).values,
                  {.target = compile_target(launch.kernel, info.arch())})));
      images.push_back(&compiled_.back()->image);
    }
  }
  kernels_ = std::make_unique<gpu::KernelCache>(device, std::move(images));
}

void PreparedCase::run(const Operands& operands, gpu::Stream& stream) {
  lab::run(*kernels_, *workload_, operands, tuned_.plan, stream);
}

void PreparedCase::run_overlapping(const Operands& operands, gpu::Stream& stream) {
  lab::run_overlapping(*kernels_, *workload_, operands, tuned_.plan, stream);
}

std::optional<SmokeFigure> PreparedCase::run_smoke(gpu::Stream& stream) {
  return lab::run_smoke(*kernels_, *workload_, tuned_.plan, stream);
}

Verdict PreparedCase::judge(Placement& placement, std::span<TileValues> tiles,
                            const Tolerance& tolerance, gpu::Stream& stream) {
  return run_and_judge(*kernels_, *workload_, placement, tuned_.plan, tiles, tolerance, stream);
}

void run_case(gpu::Device& device, const CaseSpec& spec, int times) {
  PreparedCase prepared(device, spec);
  const std::unique_ptr<gpu::Stream> stream = device.make_stream();
  const Placement placement(device, prepared.workload(), *stream);
  for (int i = 0; i < times; ++i) {
    prepared.run(placement.operands(), *stream);
  }
  device.synchronize();
}

}  // namespace fovea::lab
