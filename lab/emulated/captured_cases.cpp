// Records the outputs of cases, and compares the emulator's outputs with the records.
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

/// Number of words recorded per output: primes, so that words at even distances lie in different
/// columns.
constexpr std::size_t kExactWords = 5;
constexpr std::size_t kApproximateWords = 53;
constexpr int kMaxUlps = 2;

std::string record_name(int arch, const EmulatedJob& job) {
  return fmt::format("sm_{} {} {} {}", arch, job.card->name, job.card_case->name,
                     job.plan ? to_string(*job.plan) : "");
}

/// Hashes that identify a case with its inputs, and its kernels.
struct CaseHashes {
  std::uint64_t identity = 0;
  std::uint64_t code = 0;
  bool is_approximate = false;
};

CaseHashes case_hashes(const CaseOutputs& ran, int arch) {
  captures::Hash identity;
  captures::Hash code;
  CaseHashes hashes;
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
    const std::string ptx = gpu::kernel_ptx(*image);
    code.add_ptx(ptx);
    hashes.is_approximate = hashes.is_approximate || ptx.find(".approx.") != std::string::npos;
  }
  hashes.identity = identity.value();
  hashes.code = code.value();
  return hashes;
}

/// Returns the root mean square of an output's numbers, without infinities and NaN.
double root_mean_square(std::span<const std::byte> output, DType type) {
  double sum = 0;
  const std::size_t count = output.size() / size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = double{decode(type, output.data() + i * size_of(type))};
    sum += std::isfinite(value) ? value * value : 0.0;
  }
  return count == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(count));
}

DType output_type(const CaseOutputs& ran, std::size_t index) {
  return index == 0 ? ran.workload.output().type : DType::kF32;
}

std::string difference(const captures::Record& expected, const CaseOutputs& ran,
                       bool is_approximate) {
  if (expected.outputs.size() != ran.outputs.size()) {
    return fmt::format("got {} outputs, not {}", ran.outputs.size(), expected.outputs.size());
  }
  for (std::size_t k = 0; k < ran.outputs.size(); ++k) {
    captures::Tolerance tolerance;
    if (is_approximate) {
      const DType type = output_type(ran, k);
      // Values that are nearly equal may be rounded differently to the type of intermediate
      // results.
      const DType narrowest = k == 0 ? ran.workload.output().precision() : type;
      // Whole numbers have no units in the last place.
      const bool is_whole = narrowest == DType::kU8 || narrowest == DType::kI8;
      const double step = is_whole ? 0.0 : unit_in_last_place(narrowest, 1.0);
      tolerance = {.format = type,
                   .ulps = kMaxUlps,
                   .absolute = kMaxUlps * step * root_mean_square(ran.outputs[k], type)};
    }
    const std::string what = captures::difference(expected.outputs[k], ran.outputs[k], tolerance);
    if (!what.empty()) {
      return fmt::format("{}: {}", k == 0 ? "output" : "row scales", what);
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<gpu::Device> open_as_emulated(int index) {
  return gpu::open_changed_cuda_device(index, [](gpu::DeviceInfo& info) {
    // These properties are the same for all architectures.
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

std::string CaseRecorder::inspect(const EmulatedJob& job, const CaseOutputs& ran) {
  const CaseHashes hashes = case_hashes(ran, arch_);
  captures::Record record{.identity = hashes.identity, .code = hashes.code};
  const std::size_t usual = hashes.is_approximate ? kApproximateWords : kExactWords;
  for (const std::vector<std::byte>& output : ran.outputs) {
    record.outputs.push_back(captures::record_of(output, words_ > 0 ? words_ : usual));
  }
  const std::lock_guard lock(mutex_);
  results_.kernels[record_name(arch_, job)] = std::move(record);
  return {};
}

CaseComparer::CaseComparer(const std::filesystem::path& file, int arch)
    : arch_(arch), captured_(captures::read_results(file)) {}

std::string CaseComparer::inspect(const EmulatedJob& job, const CaseOutputs& ran) {
  const CaseHashes hashes = case_hashes(ran, arch_);
  const auto record = captured_.kernels.find(record_name(arch_, job));
  const bool is_recorded =
      record != captured_.kernels.end() && record->second.identity == hashes.identity;
  std::string what;
  captures::Distance distance;
  if (is_recorded) {
    what = difference(record->second, ran, hashes.is_approximate);
    for (std::size_t k = 0; hashes.is_approximate && k < ran.outputs.size(); ++k) {
      distance.add(
          captures::distance(record->second.outputs.at(k), ran.outputs[k], output_type(ran, k)));
    }
  }
  const std::lock_guard lock(mutex_);
  CaptureFigures& figures = figures_[job.card->name];
  if (!is_recorded) {
    ++figures.missing;
    return {};
  }
  ++figures.compared;
  figures.approximate += hashes.is_approximate ? 1 : 0;
  figures.distance.add(distance);
  if (what.empty()) {
    return {};
  }
  ++figures.differing;
  const bool changed = record->second.code != hashes.code;
  figures.changed += changed ? 1 : 0;
  return fmt::format("different from the output of {}: {}{}", captured_.device, what,
                     changed ? "; the kernel's PTX has changed since: if its result has changed on "
                               "purpose, capture its cases on that GPU again"
                             : "");
}

}  // namespace fovea::lab
