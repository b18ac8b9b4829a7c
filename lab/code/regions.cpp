// Finds the marked regions in the sources, and the instructions that were compiled from them.
#include "lab/code/regions.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "core/error.hpp"
#include "lab/code/control_flow.hpp"
#include "lab/code/machine_code.hpp"

namespace fovea::lab {
namespace {

constexpr std::string_view kMark = "// region: ";
constexpr std::string_view kEnd = "// end region";
constexpr std::string_view kPlace = "//## File \"";

/// Returns the path relative to the folder that contains kernels/.
std::string_view kernels_relative_path(std::string_view path) {
  const std::size_t begin = path.rfind("/kernels/");
  return begin == path.npos ? path : path.substr(begin + 1);
}

/// Adds the regions that contain a source location: "//## File "/x/a.cuh", line 14 inlined at ...".
void add_regions(std::string_view line, const RegionLines& regions,
                 std::vector<std::string_view>& names) {
  const std::size_t file = line.find(kPlace) + kPlace.size();
  const std::size_t file_end = std::min(line.find('"', file), line.size());
  const std::size_t digits = line.find_first_of("0123456789", file_end);
  int number = 0;
  if (digits == line.npos) {
    return;
  }
  std::from_chars(line.data() + digits, line.data() + line.size(), number);
  const std::string_view path = kernels_relative_path(line.substr(file, file_end - file));
  for (const auto& [name, ranges] : regions) {
    for (const LineRange& range : ranges) {
      if (range.file == path && range.first <= number && number <= range.last &&
          std::ranges::find(names, name) == names.end()) {
        names.emplace_back(name);
      }
    }
  }
}

/// Returns whether the cubin has line information: a section .debug_line.
bool has_lines(std::span<const std::byte> cubin) {
  constexpr std::string_view kSection = ".debug_line";
  return std::ranges::search(cubin, std::as_bytes(std::span(kSection))).begin() != cubin.end();
}

}  // namespace

RegionLines find_regions(const std::map<std::string, std::string>& files) {
  RegionLines regions;
  for (const auto& [path, text] : files) {
    std::istringstream lines(text);
    std::string open;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (const std::size_t begin = line.find(kMark); begin != line.npos) {
        const std::string name = line.substr(begin + kMark.size());
        if (!open.empty() || name.empty()) {
          fail("{}:{}: region '{}' begins within region '{}'", path, number, name, open);
        }
        open = name;
        regions[name].push_back({.file = path, .first = number, .last = 0});
      } else if (line.find(kEnd) != line.npos) {
        if (open.empty()) {
          fail("{}:{}: a region ends here without having begun", path, number);
        }
        regions[std::exchange(open, {})].back().last = number;
      }
    }
    if (!open.empty()) {
      fail("{}: region '{}' has no end", path, open);
    }
  }
  return regions;
}

std::map<std::string, InstructionCounts> count_by_region(std::string_view listing,
                                                         const RegionLines& regions) {
  std::map<std::string, InstructionCounts> counts;
  std::vector<std::string_view> current_regions;
  // Whether the next source location is the first one of an instruction.
  bool is_first_location = true;
  bool has_locations = false;
  while (!listing.empty()) {
    const std::string_view line = listing.substr(0, listing.find('\n'));
    listing.remove_prefix(std::min(line.size() + 1, listing.size()));
    if (line.find(kPlace) != line.npos) {
      if (std::exchange(is_first_location, false)) {
        current_regions.clear();
      }
      has_locations = true;
      add_regions(line, regions, current_regions);
      continue;
    }
    for (const Instruction& instruction : read_instructions(line)) {
      is_first_location = true;
      for (const std::string_view region : current_regions) {
        ++counts[std::string(region)][std::string(instruction.name)];
      }
    }
  }
  if (has_locations) {
    for (const auto& [name, ranges] : regions) {
      counts.try_emplace(name);
    }
  }
  return counts;
}

int count_instruction(const InstructionCounts& counts, std::string_view instruction) {
  int sum = 0;
  for (const auto& [name, count] : counts) {
    sum += Instruction{.name = name}.is(instruction) ? count : 0;
  }
  return sum;
}

std::vector<std::string> check_demands(const RegionLimits& limits, const ParameterValues& values,
                                       const InstructionCounts& instructions) {
  std::vector<std::string> faults;
  for (const InstructionDemand& demand : limits.demands) {
    const int number = count_instruction(instructions, demand.instruction);
    const int limit = demand.count(values);
    if (demand.exactly ? number != limit : number > limit) {
      faults.push_back(fmt::format("{}: {} {} instead of {} {}", limits.region, number,
                                   demand.instruction, demand.exactly ? "exactly" : "at most",
                                   limit));
    }
  }
  return faults;
}

std::vector<LinedKernel> with_lines(std::span<const gpu::KernelImage* const> unit) {
  const RegionLines regions = find_regions(KernelSources::built_in().files());
  const std::vector<std::byte> cubin = gpu::unpack(*unit.front());
  AssembledUnit assembled;
  if (!has_lines(cubin)) {
    assembled = assemble_with_lines(*unit.front());
  }
  const std::span<const std::byte> code = assembled.cubin.empty() ? cubin : assembled.cubin;
  const std::string listing = disassemble(code, {"-gi", "-c", "-ndf"}, unit.front()->name);
  std::vector<LinedKernel> kernels;
  for (const gpu::KernelImage* const image : unit) {
    kernels.push_back(
        {.compiler = assembled.assembler,
         .same = kernel_instructions(code, image->name) == kernel_instructions(cubin, image->name),
         .image = *image,
         .regions = count_by_region(kernel_listing(listing, image->name), regions)});
  }
  return kernels;
}

LinedKernel with_lines(const gpu::KernelImage& image, const KernelSources& sources) {
  LinedKernel lined;
  lined.compiled = compile(sources, image.kernel, sources.kernel(image.name).values,
                           {.target = compile_target(image.kernel, image.arch)});
  lined.compiler = lined.compiled.compiler;
  lined.image = lined.compiled.image;
  lined.image.packed = lined.compiled.cubin;
  lined.regions =
      count_by_region(disassemble(lined.image, {"-gi", "-c"}), find_regions(sources.files()));
  lined.same = kernel_instructions(lined.compiled.cubin, image.name) ==
               kernel_instructions(gpu::unpack(image), image.name);
  return lined;
}

InstructionDemand at_most(const std::string& instruction, int count) {
  return {.instruction = instruction, .count = [count](const ParameterValues&) { return count; }};
}

InstructionDemand exactly(const std::string& instruction, int count) {
  return exactly(instruction, [count](const ParameterValues&) { return count; });
}

InstructionDemand exactly(const std::string& instruction,
                          std::function<int(const ParameterValues&)> count) {
  return {.instruction = instruction, .exactly = true, .count = std::move(count)};
}

}  // namespace fovea::lab
