// Records of cases: what identifies them, and the tolerance for the emulator's outputs.
#include "lab/emulated/captured_cases.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/commit.hpp"
#include "core/error.hpp"
#include "gpu/device/cuda_device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "lab/captures/hash.hpp"
#include "lab/check/judge.hpp"

namespace fovea::lab {
namespace {

/// Number of words kept per output. Primes, so that words spread evenly over an output fall into
/// different columns.
constexpr std::size_t kExactWords = 5;
constexpr std::size_t kApproximateWords = 53;
constexpr int kMaxUlps = 2;

std::string name_of(int arch, const EmulatedJob& job) {
  return fmt::format("sm_{} {} {} {}", arch, job.card->name, job.card_case->name,
                     job.plan ? to_string(*job.plan) : "");
}

/// Identifies a case, its inputs and its kernels.
struct Identified {
  std::uint64_t identity = 0;
  std::uint64_t code = 0;
  bool is_approximate = false;
};

Identified identify(const Ran& ran, int arch) {
  captures::Hash identity;
  captures::Hash code;
  Identified found;
  identity.add_text(ran.workload.describe());
  for (const Tensor& input : ran.workload.inputs()) {
    identity.add_text(to_string(input.type()));
    identity.add_number(static_cast<std::uint64_t>(input.rows()));
    identity.add_number(static_cast<std::uint64_t>(input.columns()));
    identity.add(input.block());
  }
  for (const gpu::Launch& launch : ran.launches) {
    identity.add_text(gpu::info_of(launch.kernel).name);
    const gpu::KernelImage* const image = gpu::find_kernel_image(launch.kernel, arch);
    if (image == nullptr) {
      fail("kernel {} is not built for sm_{}", gpu::info_of(launch.kernel).name, arch);
    }
    const std::string ptx = gpu::ptx_of(*image);
    code.add_ptx(ptx);
    found.is_approximate = found.is_approximate || ptx.find(".approx.") != std::string::npos;
  }
  found.identity = identity.value();
  found.code = code.value();
  return found;
}

/// Returns the root mean square of all numbers in an output.
double magnitude_of(std::span<const std::byte> output, DType type) {
  double sum = 0;
  const std::size_t count = output.size() / size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = double{decode(type, output.data() + i * size_of(type))};
    sum += std::isfinite(value) ? value * value : 0.0;
  }
  return count == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(count));
}

DType type_of_output(const Ran& ran, std::size_t index) {
  return index == 0 ? ran.workload.output().type : DType::kF32;
}

std::string difference(const captures::Record& wanted, const Ran& ran, bool is_approximate) {
  if (wanted.outputs.size() != ran.outputs.size()) {
    return fmt::format("there are {} outputs, not {}", ran.outputs.size(), wanted.outputs.size());
  }
  for (std::size_t k = 0; k < ran.outputs.size(); ++k) {
    captures::Tolerance tolerance;
    if (is_approximate) {
      const DType type = type_of_output(ran, k);
      // Where intermediate results are rounded, nearby values may round differently.
      const DType narrowest = k == 0 ? ran.workload.output().precision() : type;
      // Whole numbers are compared by their difference.
      const bool is_whole = narrowest == DType::kU8 || narrowest == DType::kI8;
      const double step = is_whole ? 0.0 : unit_in_last_place(narrowest, 1.0);
      tolerance = {.format = type,
                   .ulps = kMaxUlps,
                   .absolute = kMaxUlps * step * magnitude_of(ran.outputs[k], type)};
    }
    const std::string what = captures::difference(wanted.outputs[k], ran.outputs[k], tolerance);
    if (!what.empty()) {
      return fmt::format("{}: {}", k == 0 ? "the output" : "the rows' scales", what);
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<gpu::Device> open_as_emulated(int index) {
  return gpu::open_changed_cuda_device(index, [](gpu::DeviceInfo& info) {
    // The same for all architectures.
    const gpu::DeviceInfo emulated = gpu::emulated_info(gpu::kDefaultArch);
    info.sm_count = emulated.sm_count;
    info.l2_bytes = emulated.l2_bytes;
  });
}

CaseRecorder::CaseRecorder(const gpu::DeviceInfo& device, std::size_t words)
    : arch_(device.arch()), words_(words) {
  results_.device = device.name;
  results_.driver = std::to_string(device.driver_version);
  results_.commit = built_from_commit;
  results_.assembler = device.is_emulated ? "none" : "ptxas";
}

std::string CaseRecorder::inspect(const EmulatedJob& job, const Ran& ran) {
  const Identified found = identify(ran, arch_);
  captures::Record record{.identity = found.identity, .code = found.code};
  const std::size_t usual = found.is_approximate ? kApproximateWords : kExactWords;
  for (const std::vector<std::byte>& output : ran.outputs) {
    record.outputs.push_back(captures::record_of(output, words_ > 0 ? words_ : usual));
  }
  const std::lock_guard lock(mutex_);
  results_.kernels[name_of(arch_, job)] = std::move(record);
  return {};
}

CaseComparer::CaseComparer(const std::filesystem::path& file, int arch)
    : arch_(arch), captured_(captures::read_results(file)) {}

std::string CaseComparer::inspect(const EmulatedJob& job, const Ran& ran) {
  const Identified found = identify(ran, arch_);
  const auto record = captured_.kernels.find(name_of(arch_, job));
  const bool is_there =
      record != captured_.kernels.end() && record->second.identity == found.identity;
  std::string what;
  captures::Distance distance;
  if (is_there) {
    what = difference(record->second, ran, found.is_approximate);
    for (std::size_t k = 0; found.is_approximate && k < ran.outputs.size(); ++k) {
      distance.add(
          captures::distance(record->second.outputs.at(k), ran.outputs[k], type_of_output(ran, k)));
    }
  }
  const std::lock_guard lock(mutex_);
  CaptureFigures& figures = figures_[job.card->name];
  if (!is_there) {
    ++figures.missing;
    return {};
  }
  ++figures.compared;
  figures.approximate += found.is_approximate ? 1 : 0;
  figures.distance.add(distance);
  if (what.empty()) {
    return {};
  }
  ++figures.differing;
  const bool changed = record->second.code != found.code;
  figures.changed += changed ? 1 : 0;
  return fmt::format("not what {} computed: {}{}", captured_.device, what,
                     changed ? "; the kernel's PTX has changed since, so if it is meant to compute "
                               "something else, capture its cases on that GPU again"
                             : "");
}

}  // namespace fovea::lab
