// Reads resource usage and machine code of the compiled kernels, and checks them against the cards.
#include "lab/code/resources.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/thread_pool.hpp"
#include "lab/code/control_flow.hpp"
#include "lab/code/instruction_kinds.hpp"
#include "lab/code/machine_code.hpp"
#include "lab/system/in_order.hpp"

namespace fovea::lab {
namespace {

/// Instructions that no kernel may contain: loads and stores of local memory.
constexpr std::array<std::string_view, 2> kForbidden = {"LDL", "STL"};

/// Calls body(limits) for each limit that a card sets for the image.
template <typename Body>
void for_limits(std::span<const Card* const> cards, const gpu::KernelImage& image, Body body) {
  for (const Card* const card : cards) {
    for (const KernelLimits& limits : card->kernels) {
      if (limits.covers(image.name) && (limits.arch == 0 || limits.arch == image.arch)) {
        body(limits);
      }
    }
  }
}

/// Maximal number of images per run of the disassembler: enough to amortise its start, and few
/// enough to occupy all CPUs.
constexpr std::size_t kMaxImagesPerRun = 24;

/// Splits the images for which is_wanted() returns true into batches, each for a single
/// architecture.
std::vector<std::vector<const gpu::KernelImage*>> batch_images(
    std::span<const gpu::KernelImage> images,
    const std::function<bool(const gpu::KernelImage&)>& is_wanted) {
  std::map<int, std::vector<const gpu::KernelImage*>> by_arch;
  for (const gpu::KernelImage& image : images) {
    if (is_wanted(image)) {
      by_arch[image.arch].push_back(&image);
    }
  }
  std::vector<std::vector<const gpu::KernelImage*>> runs;
  for (const auto& [arch, all] : by_arch) {
    for (std::size_t first = 0; first < all.size(); first += kMaxImagesPerRun) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      const std::size_t count = std::min(kMaxImagesPerRun, all.size() - first);
      runs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    }
  }
  return runs;
}

void remove_duplicates(std::vector<std::string>& faults) {
  std::ranges::sort(faults);  // cards that share a kernel may report the same fault
  const auto [first, last] = std::ranges::unique(faults);
  faults.erase(first, last);
}

/// Checks the demands on those regions of the report's kernel for which `is_checked` returns true.
template <typename IsDue>
void check_limits(std::span<const Card* const> cards, ImageReport& report, IsDue is_checked) {
  const ParameterValues& values = KernelSources::built_in().kernel(report.image->name).values;
  for_limits(cards, *report.image, [&](const KernelLimits& limits) {
    for (const RegionLimits& region : limits.regions) {
      if (is_checked(region.region)) {
        const auto faults = check_demands(region, values, report.regions[region.region]);
        report.faults.insert(report.faults.end(), faults.begin(), faults.end());
      }
    }
  });
  remove_duplicates(report.faults);
}

std::vector<Role> kernel_roles(std::span<const Card* const> cards, const gpu::KernelImage& image) {
  std::vector<Role> roles;
  for_limits(cards, image, [&](const KernelLimits& limits) {
    roles = limits.roles.empty() ? roles : limits.roles;
  });
  return roles;
}

/// Returns whether a card has demands on a region marked in the sources, as opposed to a role.
bool has_marked_regions(std::span<const Card* const> cards, const gpu::KernelImage& image) {
  bool has_any = false;
  for_limits(cards, image, [&](const KernelLimits& limits) {
    has_any =
        has_any || std::ranges::any_of(limits.regions, [&](const RegionLimits& region) {
          return std::ranges::find(limits.roles, region.region, &Role::name) == limits.roles.end();
        });
  });
  return has_any;
}

/// Adds the faults of the roles of the report's kernel, and of regions that are roles. Branch
/// targets in the listing must be addresses.
void check_roles(std::span<const Card* const> cards, std::string_view listing,
                 ImageReport& report) {
  const std::vector<Role> roles = kernel_roles(cards, *report.image);
  if (roles.empty()) {
    return;
  }
  const std::vector<Instruction> instructions = read_instructions(listing);
  std::vector<BasicBlock> blocks;
  try {
    blocks = control_flow(instructions);
  } catch (const Error& error) {
    report.faults.emplace_back(error.what());
    return;
  }
  const RoleParts parts = find_roles(instructions, blocks, roles);
  report.faults.insert(report.faults.end(), parts.faults.begin(), parts.faults.end());
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (std::size_t i = blocks[block].first; i < blocks[block].last; ++i) {
      ++report.regions[parts.parts[block]][std::string(instructions[i].name)];
    }
  }
  check_limits(cards, report, [&](const std::string& region) {
    return std::ranges::find(roles, region, &Role::name) != roles.end();
  });
}

/// Adds the faults of the regions in the sources. A region that is not marked in the sources is a
/// fault.
void check_regions(std::span<const Card* const> cards,
                   const std::map<std::string, InstructionCounts>& regions, ImageReport& report) {
  report.regions.insert(regions.begin(), regions.end());
  check_limits(cards, report, [&](const std::string& region) {
    if (!report.regions.contains(region)) {
      report.faults.push_back(fmt::format("the region '{}' is not marked in the sources", region));
    }
    return regions.contains(region);
  });
}

/// Runs all checks that do not need line information.
void check_listing(std::span<const Card* const> cards, std::string_view listing,
                   ImageReport& report) {
  report.counts = count_instructions(listing);
  for (const auto& [name, number] : report.counts) {
    report.instructions += number;
  }
  const auto faults = check_instructions(cards, *report.image, report.counts);
  report.faults.insert(report.faults.end(), faults.begin(), faults.end());
  check_roles(cards, listing, report);
}

std::vector<ImageReport> check_run(std::span<const Card* const> cards,
                                   std::span<const gpu::KernelImage* const> run) {
  const std::vector<std::string> listings = disassemble(run);
  std::vector<ImageReport> reports(listings.size());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].image = run[i];
    check_listing(cards, listings[i], reports[i]);
  }
  return reports;
}

/// Checks the cards' demands on the instructions in the regions of the report's kernel.
void add_regions(std::span<const Card* const> cards, LinedKernel lined, ImageReport& report) {
  if (!lined.same) {
    report.faults.push_back(
        fmt::format("{} generates other machine code than this program contains, so the regions "
                    "are not comparable",
                    lined.compiler));
  }
  check_regions(cards, lined.regions, report);
  report.lined = std::make_shared<const LinedKernel>(std::move(lined));
}

/// Makes `count` lists of reports on all CPUs and passes the reports to `tell` in order. Each list
/// is freed afterwards.
template <typename Make>
void make_reports(std::size_t count, const Make& make,
                  const std::function<void(const ImageReport&)>& tell) {
  ThreadPool pool(available_threads());
  in_order(
      pool, count, [&](std::size_t index, int) { return make(index); },
      [&](const std::vector<ImageReport>& reports) { std::ranges::for_each(reports, tell); });
}

}  // namespace

std::vector<ImageReport> check_resources(std::span<const Card* const> cards,
                                         std::span<const gpu::KernelImage> images) {
  std::vector<ImageReport> reports;
  for (const gpu::KernelImage& image : images) {
    ImageReport report;
    report.image = &image;
    const auto at_most = [&](int value, int limit, std::string_view what) {
      if (value > limit) {
        report.faults.push_back(fmt::format("{} {}, {} allowed", value, what, limit));
      }
    };
    KernelLimits limits;
    for_limits(cards, image, [&](const KernelLimits& demanded) {
      limits.registers = std::min(limits.registers, demanded.registers);
      limits.shared_bytes = std::min(limits.shared_bytes, demanded.shared_bytes);
    });
    if (image.registers == 0) {
      report.faults.emplace_back(
          "its resources are unknown, since no ptxas was found to compile it");
    }
    at_most(image.registers, limits.registers, "registers");
    at_most(image.shared_bytes, limits.shared_bytes, "bytes of static shared memory");
    at_most(image.spill_store_bytes, 0, "bytes of spill stores");
    at_most(image.spill_load_bytes, 0, "bytes of spill loads");
    at_most(image.stack_bytes, 0, "bytes of local memory");
    reports.push_back(std::move(report));
  }
  return reports;
}

InstructionCounts count_instructions(std::string_view disassembly) {
  InstructionCounts counts;
  for (const Instruction& instruction : read_instructions(disassembly)) {
    ++counts[std::string(instruction.name)];
  }
  return counts;
}

std::vector<std::string> check_instructions(std::span<const Card* const> cards,
                                            const gpu::KernelImage& image,
                                            const InstructionCounts& instructions) {
  std::vector<std::string> faults;
  const auto must_lack = [&](std::string_view name) {
    if (const int number = count_instruction(instructions, name); number > 0) {
      faults.push_back(fmt::format("{} {}, 0 allowed", number, name));
    }
  };
  if (instructions.empty()) {
    faults.emplace_back("no instruction was found");
  }
  std::ranges::for_each(kForbidden, must_lack);
  for (const auto& [name, number] : instructions) {
    if (is_unknown(name, image.arch)) {
      faults.push_back(
          fmt::format("{} {}, an instruction that kernels/archs.py does not list", number, name));
    }
  }
  for_limits(cards, image, [&](const KernelLimits& limits) {
    std::ranges::for_each(limits.sass_lacks, must_lack);
    for (const std::string& name : limits.sass_has) {
      if (count_instruction(instructions, name) == 0) {
        faults.push_back(fmt::format("no {}", name));
      }
    }
  });
  remove_duplicates(faults);
  return faults;
}

std::string control_flow_graph(std::span<const Card* const> cards, const gpu::KernelImage& image) {
  const gpu::KernelImage* const pointer = &image;
  const std::string listing = disassemble(std::span(&pointer, 1)).front();
  const std::vector<Instruction> instructions = read_instructions(listing);
  const std::vector<BasicBlock> blocks = control_flow(instructions);
  return to_dot(image.name, instructions, blocks,
                find_roles(instructions, blocks, kernel_roles(cards, image)));
}

std::string to_json(const ImageReport& report) {
  const gpu::KernelImage& image = *report.image;
  nlohmann::ordered_json json = {{"kernel", image.name},
                                 {"source", image.source},
                                 {"arch", image.arch},
                                 {"registers", image.registers},
                                 {"shared_bytes", image.shared_bytes},
                                 {"stack_bytes", image.stack_bytes},
                                 {"spill_bytes", image.spill_store_bytes + image.spill_load_bytes}};
  if (!report.counts.empty()) {
    json["instructions"] = report.instructions;
    json["counts"] = report.counts;
    json["regions"] = nlohmann::ordered_json::array();
    for (const auto& [region, counts] : report.regions) {
      int all = 0;
      for (const auto& [name, count] : counts) {
        all += count;
      }
      json["regions"].push_back({{"name", region}, {"instructions", all}, {"counts", counts}});
    }
  }
  if (report.lined != nullptr) {
    json["compiler"] = report.lined->compiler;
    json["same_as_program"] = report.lined->same;
  }
  json["faults"] = report.faults;
  return json.dump();
}

void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images, bool by_line,
                        const std::function<void(const ImageReport&)>& report) {
  // Only kernels with demands on marked regions need line information and are compiled again.
  const auto has_lines = [&](const gpu::KernelImage& image) {
    return by_line && has_marked_regions(cards, image);
  };
  std::vector<std::vector<const gpu::KernelImage*>> runs =
      batch_images(images, [&](const auto& image) { return !has_lines(image); });
  const std::size_t plain = runs.size();
  std::map<const std::byte*, std::vector<const gpu::KernelImage*>> units;
  for (const gpu::KernelImage& image : images) {
    if (has_lines(image)) {
      units[image.packed.data()].push_back(&image);
    }
  }
  for (auto& [code, unit] : units) {
    runs.push_back(std::move(unit));
  }
  make_reports(
      runs.size(),
      [&](std::size_t index) {
        std::vector<ImageReport> reports = check_run(cards, runs[index]);
        if (index >= plain) {
          std::vector<LinedKernel> lined = with_lines(runs[index]);
          for (std::size_t i = 0; i < reports.size(); ++i) {
            add_regions(cards, std::move(lined[i]), reports[i]);
          }
        }
        return reports;
      },
      report);
}

void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images, const KernelSources& sources,
                        const std::function<void(const ImageReport&)>& report) {
  make_reports(
      images.size(),
      [&](std::size_t index) {
        const auto lined = std::make_shared<const LinedKernel>(with_lines(images[index], sources));
        ImageReport made = check_resources(cards, std::span(&lined->image, 1)).front();
        made.lined = lined;
        const gpu::KernelImage* const code = &lined->image;
        check_listing(cards, disassemble(std::span(&code, 1)).front(), made);
        check_regions(cards, lined->regions, made);
        return std::vector{std::move(made)};
      },
      report);
}

}  // namespace fovea::lab
