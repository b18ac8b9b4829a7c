// Reads resource use and machine code of the compiled kernels, and compares them with the cards.
#include "lab/resources.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <mutex>
#include <utility>

#include "core/thread_pool.hpp"
#include "lab/machine_code.hpp"

namespace fovea::lab {
namespace {

/// Instructions that no kernel may have: loads and stores of local memory.
constexpr std::array<std::string_view, 2> kNever = {"LDL", "STL"};

/// Calls body(limits) for each limit that one of the cards sets for the image.
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

/// Whether `name` is the instruction or a form of it: "LDG" covers "LDG.E.128", "LD" does not.
bool is_form_of(std::string_view name, std::string_view instruction) {
  return name.starts_with(instruction) &&
         (name.size() == instruction.size() || name[instruction.size()] == '.');
}

/// So many that a disassembler's start hardly counts, so few that all CPUs have some.
constexpr std::size_t kMostImagesARun = 24;

/// The images of one architecture after the other, in parts of one each.
std::vector<std::vector<const gpu::KernelImage*>> runs_of(
    std::span<const gpu::KernelImage> images) {
  std::map<int, std::vector<const gpu::KernelImage*>> by_arch;
  for (const gpu::KernelImage& image : images) {
    by_arch[image.arch].push_back(&image);
  }
  std::vector<std::vector<const gpu::KernelImage*>> runs;
  for (const auto& [arch, all] : by_arch) {
    for (std::size_t first = 0; first < all.size(); first += kMostImagesARun) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      const std::size_t count = std::min(kMostImagesARun, all.size() - first);
      runs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    }
  }
  return runs;
}

}  // namespace

std::vector<ImageReport> check_resources(std::span<const Card* const> cards,
                                         std::span<const gpu::KernelImage> images) {
  std::vector<ImageReport> reports;
  for (const gpu::KernelImage& image : images) {
    ImageReport report;
    report.image = &image;
    const auto at_most = [&](int value, int most, std::string_view what) {
      if (value > most) {
        report.faults.push_back(fmt::format("{} {}, {} allowed", value, what, most));
      }
    };
    KernelLimits limits;
    for_limits(cards, image, [&](const KernelLimits& one) {
      limits.registers = std::min(limits.registers, one.registers);
      limits.shared_bytes = std::min(limits.shared_bytes, one.shared_bytes);
    });
    at_most(image.registers, limits.registers, "registers");
    at_most(image.shared_bytes, limits.shared_bytes, "bytes of static shared memory");
    at_most(image.spill_store_bytes, 0, "bytes of spill stores");
    at_most(image.spill_load_bytes, 0, "bytes of spill loads");
    at_most(image.stack_bytes, 0, "bytes of local memory");
    reports.push_back(std::move(report));
  }
  return reports;
}

std::map<std::string, int> count_instructions(std::string_view disassembly) {
  std::map<std::string, int> counts;
  while (!disassembly.empty()) {
    const std::size_t end = std::min(disassembly.find('\n'), disassembly.size());
    std::string_view line = disassembly.substr(0, end);
    disassembly.remove_prefix(std::min(end + 1, disassembly.size()));
    // "        /*0010*/              @!P0 LDG.E.128 R4, [R2] ;": the address, a predicate, a name.
    const std::size_t open = line.find("/*");
    const std::size_t close = line.find("*/");
    if (open == line.npos || close == line.npos || close < open + 3 ||
        !std::ranges::all_of(
            line.substr(open + 2, close - open - 2),
            [](unsigned char c) { return std::isxdigit(c) != 0; })) {
      continue;
    }
    line.remove_prefix(close + 2);
    const auto skip_spaces = [&line] {
      line.remove_prefix(std::min(line.find_first_not_of(" \t{"), line.size()));
    };
    skip_spaces();
    if (line.starts_with('@')) {
      line.remove_prefix(std::min(line.find(' '), line.size()));
      skip_spaces();
    }
    const std::size_t length = std::min(line.find_first_of(" ;\t"), line.size());
    if (length > 0 && std::isupper(static_cast<unsigned char>(line.front())) != 0) {
      ++counts[std::string(line.substr(0, length))];
    }
  }
  return counts;
}

std::vector<std::string> check_instructions(std::span<const Card* const> cards,
                                            const gpu::KernelImage& image,
                                            const std::map<std::string, int>& instructions) {
  std::vector<std::string> faults;
  const auto count = [&](std::string_view wanted) {
    int sum = 0;
    for (const auto& [name, number] : instructions) {
      sum += is_form_of(name, wanted) ? number : 0;
    }
    return sum;
  };
  const auto must_lack = [&](std::string_view name) {
    if (const int number = count(name); number > 0) {
      faults.push_back(fmt::format("{} {}, none allowed", number, name));
    }
  };
  if (instructions.empty()) {
    faults.emplace_back("no instruction was read");
  }
  std::ranges::for_each(kNever, must_lack);
  for_limits(cards, image, [&](const KernelLimits& limits) {
    std::ranges::for_each(limits.sass_lacks, must_lack);
    for (const std::string& name : limits.sass_has) {
      if (count(name) == 0) {
        faults.push_back(fmt::format("no {}", name));
      }
    }
  });
  std::ranges::sort(faults);  // cards of one kernel demand the same more than once
  const auto [first, last] = std::ranges::unique(faults);
  faults.erase(first, last);
  return faults;
}

void check_machine_code(std::span<const Card* const> cards,
                        std::span<const gpu::KernelImage> images,
                        const std::function<void(const ImageReport&)>& report) {
  const std::vector<std::vector<const gpu::KernelImage*>> runs = runs_of(images);
  std::vector<std::vector<ImageReport>> done(runs.size());
  std::size_t reported = 0;
  std::mutex mutex;
  ThreadPool pool(available_threads());
  pool.parallel_for(runs.size(), [&](std::size_t index, int) {
    const std::vector<std::string> listings = disassemble(runs[index]);
    std::vector<ImageReport> reports(listings.size());
    for (std::size_t i = 0; i < reports.size(); ++i) {
      reports[i].image = runs[index][i];
      const auto instructions = count_instructions(listings[i]);
      for (const auto& [name, number] : instructions) {
        reports[i].instructions += number;
      }
      reports[i].faults = check_instructions(cards, *reports[i].image, instructions);
    }
    const std::lock_guard lock(mutex);
    done[index] = std::move(reports);
    for (; reported < runs.size() && !done[reported].empty(); ++reported) {
      std::ranges::for_each(done[reported], report);
    }
  });
}

}  // namespace fovea::lab
