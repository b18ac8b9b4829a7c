// Counts operations in the emulator's trace.
#include "lab/predict/instruction_counts.hpp"

#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "gpu/emulated/emu_orders.hpp"
#include "lab/captures/hash.hpp"
#include "lab/check/placement.hpp"
#include "lab/check/prepared_case.hpp"

namespace fovea::lab {
namespace {

constexpr double kWarpsOfGroup = 4;  // warps per warpgroup, each with one event per wgmma
constexpr double kPassBytes = 128;
constexpr double kStepBytes = 32;  // bytes of K in one wgmma

/// Returns the number after a letter in a shape such as "m64n192k16", or 0 if there is none.
int number_after(std::string_view shape, char letter) {
  const std::size_t place = shape.find(letter);
  int value = 0;
  if (place != std::string_view::npos) {
    const std::string_view digits = shape.substr(place + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
  }
  return value;
}

struct Shape {
  double rows = 0;
  double columns = 0;
  double depth = 0;

  [[nodiscard]] double products() const { return rows * columns * depth; }
};

/// Returns the shape in an opcode such as "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16".
Shape parse_shape(std::string_view opcode) {
  for (std::size_t place = opcode.find(".m"); place != std::string_view::npos;
       place = opcode.find(".m", place + 1)) {
    const std::string_view word = opcode.substr(place + 1, opcode.find('.', place + 1) - place - 1);
    if (number_after(word, 'm') > 0 && number_after(word, 'n') > 0) {
      return {.rows = static_cast<double>(number_after(word, 'm')),
              .columns = static_cast<double>(number_after(word, 'n')),
              .depth = static_cast<double>(number_after(word, 'k'))};
    }
  }
  fail("{} has no shape", opcode);
}

bool is_special(std::string_view opcode) {
  constexpr std::array<std::string_view, 8> kSpecialOpcodes = {
      "ex2.", "tanh.", "rcp.approx", "rsqrt.", "lg2.", "sqrt.approx", "sin.", "cos."};
  return std::ranges::any_of(kSpecialOpcodes,
                             [&](std::string_view start) { return opcode.starts_with(start); });
}

/// Returns the number of shared-memory wavefronts: one for shfl, and one per matrix for ldmatrix
/// and stmatrix.
double matrix_passes(std::string_view opcode) {
  return opcode.find(".x4") != std::string_view::npos   ? 4
         : opcode.find(".x2") != std::string_view::npos ? 2
                                                        : 1;
}

/// Returns the name of the workload's plan that launches the kernel.
std::string find_plan_name(const Workload& workload, const gpu::DeviceInfo& device,
                           std::string_view kernel) {
  const std::vector<Plan> plans = workload.plans(device);
  if (plans.size() == 1 && to_string(plans.front()).empty()) {
    return {};
  }
  for (const Plan& plan : plans) {
    if (gpu::info_of(workload.kernel_of(device, plan)).name == kernel && !to_string(plan).empty()) {
      return to_string(plan);
    }
  }
  fail("no plan launches {} for {}", kernel, workload.describe());
}

}  // namespace

OperationCounter::OperationCounter(std::string_view ptx) {
  while (!ptx.empty()) {
    const std::size_t end = std::min(ptx.find('\n'), ptx.size());
    lines_.push_back(ptx.substr(0, end));
    ptx.remove_prefix(std::min(end + 1, ptx.size()));
  }
}

// The first operand is D, in braces. The next one, A, is a list of registers in braces or a
// descriptor.
bool OperationCounter::has_a_in_registers(int line) {
  const auto [entry, is_new] = a_in_registers_.try_emplace(line, false);
  if (is_new) {
    std::size_t braces = 0;
    for (auto index = static_cast<std::size_t>(line - 1); index < lines_.size(); ++index) {
      const std::string_view text = lines_[index].substr(0, lines_[index].find(';'));
      braces += static_cast<std::size_t>(std::ranges::count(text, '{'));
      if (text.size() != lines_[index].size()) {
        break;
      }
    }
    entry->second = braces > 1;
  }
  return entry->second;
}

void OperationCounter::add_product(const emu::TraceEvent& event) {
  const Shape shape = parse_shape(event.instruction);
  if (event.instruction.starts_with("mma.")) {
    sums_.warp_products += shape.products();
    return;
  }
  // The depth is 32 bytes for all types, so that operands of two bytes have a depth of 16.
  const bool is_wide = shape.depth * 2 == kStepBytes;
  (is_wide ? sums_.wide_products : sums_.narrow_products) += shape.products() / kWarpsOfGroup;
  const double rows = shape.columns + (has_a_in_registers(event.line) ? 0 : shape.rows);
  sums_.operand_passes += rows * kStepBytes / kPassBytes / kWarpsOfGroup;
}

void OperationCounter::add(const emu::TraceEvent& event) {
  if (event.kind != emu::TraceKind::kRun) {
    return;
  }
  const std::string_view opcode = event.instruction;
  WarpCounts& warp = warps_[{event.block, event.warp}];
  ++warp.instructions;
  if (opcode.starts_with("wgmma.mma_async") || opcode.starts_with("mma.sync")) {
    warp.is_worker = true;
    add_product(event);
  } else if (opcode.starts_with("tcgen05.mma.cta_group::2")) {
    ++sums_.pair_steps;
  } else if (opcode.starts_with("tcgen05.mma")) {
    fail("{}: only products of CTA pairs are supported, not of single CTAs", opcode);
  } else if (opcode.starts_with("tcgen05.ld")) {
    // The number after ".x" is that of the columns, with one word per lane:
    // "tcgen05.ld.sync.aligned.32x32b.x32.b32".
    warp.is_worker = true;
    sums_.tensor_passes += number_after(opcode.substr(opcode.find(".x")), 'x');
  } else if (is_special(opcode)) {
    ++sums_.special;
  } else if (opcode.starts_with("ldmatrix") || opcode.starts_with("stmatrix") ||
             opcode.starts_with("shfl")) {
    sums_.shared_passes += matrix_passes(opcode);
  } else if (event.passes > 0) {
    const bool is_shared = opcode.find(".shared") != std::string_view::npos;
    (is_shared ? sums_.shared_passes : sums_.global_passes) += event.passes;
  }
}

OperationCounts OperationCounter::counts() const {
  OperationCounts counts = sums_;
  const bool has_workers =
      std::ranges::any_of(warps_, [](const auto& warp) { return warp.second.is_worker; });
  for (const auto& [place, warp] : warps_) {
    counts.instructions += warp.instructions;
    counts.of_workers += warp.is_worker || !has_workers ? warp.instructions : 0;
  }
  return counts;
}

OperationCounts count_instructions(const Card& card, const std::string& case_name,
                                   std::string_view kernel, int arch) {
  const gpu::KernelImage* const image = gpu::find_kernel_image(kernel, arch);
  if (image == nullptr) {
    fail("this program contains no kernel '{}' for sm_{}", kernel, arch);
  }
  const std::string ptx = gpu::kernel_ptx(*image);
  const std::unique_ptr<gpu::Device> device = gpu::open_emulated_device({.arch = arch});
  const std::unique_ptr<Workload> workload = find_case(card, case_name).make(1);
  PreparedCase prepared(*device, {.card = &card,
                                  .case_name = case_name,
                                  .plan = find_plan_name(*workload, device->info(), kernel)});
  const std::unique_ptr<gpu::Stream> stream = device->make_stream();
  Placement placement(*device, prepared.workload(), *stream);
  placement.reset(*stream);
  OperationCounter counter(ptx);
  gpu::begin_order(*device, 1, [&](const emu::TraceEvent& event) { counter.add(event); });
  prepared.run(placement.operands(), *stream);
  stream->synchronize();
  return counter.counts();
}

// The counts per unit follow from the difference between two problems, in which one-time work
// cancels, or, with two kinds of units, from a system of two equations.
std::array<OperationCounts, 2> count_units(const Card& card, const KernelWork& work,
                                           std::string_view kernel, int arch) {
  const auto& [first, second] = work.counted;
  const OperationCounts first_counts = count_instructions(card, first.fields, kernel, arch);
  const OperationCounts second_counts = count_instructions(card, second.fields, kernel, arch);
  const double determinant = first.sizes[0] * second.sizes[1] - first.sizes[1] * second.sizes[0];
  std::array<OperationCounts, 2> units;
  for (const auto& [name, member] : kCountMembers) {
    if (second.sizes[1] == 0) {
      units[0].*member =
          (second_counts.*member - first_counts.*member) / (second.sizes[0] - first.sizes[0]);
    } else {
      units[0].*member =
          (first_counts.*member * second.sizes[1] - second_counts.*member * first.sizes[1]) /
          determinant;
      units[1].*member =
          (second_counts.*member * first.sizes[0] - first_counts.*member * second.sizes[0]) /
          determinant;
    }
  }
  return units;
}

std::uint64_t ptx_hash(std::string_view kernel, int arch) {
  const gpu::KernelImage* const image = gpu::find_kernel_image(kernel, arch);
  if (image == nullptr) {
    return 0;
  }
  captures::Hash hash;
  const std::string ptx = gpu::kernel_ptx(*image);
  const std::size_t begin = ptx.find(fmt::format(".entry {}(", kernel));
  if (begin == std::string::npos) {
    fail("the PTX of '{}' for sm_{} has no entry with this name", kernel, arch);
  }
  hash.add_ptx(std::string_view(ptx).substr(begin, ptx.find("\n}", begin) - begin));
  return hash.value();
}

}  // namespace fovea::lab
