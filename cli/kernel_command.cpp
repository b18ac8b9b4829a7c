// `fovea kernel list`, `check`, `resources` and `sass`.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/nearest.hpp"
#include "lab/card.hpp"
#include "lab/check_cards.hpp"
#include "lab/machine_code.hpp"
#include "lab/resources.hpp"

namespace fovea::cli {
// The device's own message advises an option that these commands do not have.
std::unique_ptr<gpu::Device> open_gpu(const KernelArguments& arguments) {
  try {
    return gpu::open_cuda_device(arguments.device);
  } catch (const gpu::NoGpu& error) {
    const std::string reason = error.what();
    throw Error(reason.substr(0, reason.find(';')) +
                "; this command needs an NVIDIA GPU (list, resources and sass do without)");
  }
}

void require_case(const std::vector<const lab::Card*>& cards, const std::string& name) {
  std::vector<std::string> known;
  for (const lab::Card* const card : cards) {
    std::ranges::transform(card->cases, std::back_inserter(known), &lab::Case::name);
  }
  if (!name.empty() && std::ranges::find(known, name) == known.end()) {
    const std::string hint = io::did_you_mean(name, known);
    throw Error(fmt::format("no case '{}'{}", name,
                            hint.empty() ? "; `fovea kernel list -v` names them" : hint));
  }
}

namespace {

nlohmann::ordered_json to_json(const lab::Case& one) {
  return {{"name", one.name}, {"check", one.check}, {"mutants", one.mutants}, {"bench", one.bench}};
}

}  // namespace

int run_list(const KernelArguments& arguments) {
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : lab::find_cards(arguments.names)) {
    json.push_back({{"name", card->name},
                    {"arch", card->arch},
                    {"operation", card->operation},
                    {"cases", nlohmann::ordered_json::array()}});
    for (const lab::Case& one : card->cases) {
      json.back()["cases"].push_back(to_json(one));
    }
    if (!arguments.json.leaves_text()) {
      continue;
    }
    std::cout << fmt::format("{:<24} sm_{:<4} {}\n", card->name, card->arch, card->operation);
    for (const lab::Case& one : card->cases) {
      if (arguments.verbose) {
        std::cout << fmt::format("    {:<28}{}{}{}\n", one.name, one.check ? " check" : "",
                                 one.mutants ? " mutants" : "", one.bench ? " bench" : "");
      }
    }
  }
  arguments.json.write(json);
  return kDone;
}

namespace {

void print_check(const lab::CheckResult& result) {
  const lab::Verdict& verdict = result.verdict;
  std::cout << fmt::format("{} {} {}{}{}", result.passed ? "pass" : "FAIL", result.card,
                           result.case_name, result.what.empty() ? "" : ", ", result.what);
  if (!result.passed) {
    std::cout << fmt::format(", seed {}", result.seed);
  }
  if (verdict.framework_error > 0 && !result.what.starts_with("mutant")) {
    std::cout << fmt::format(
        ": error {:.2e} (framework {:.2e}), difference {:.1e}, worst tile {:.1e}", verdict.error,
        verdict.framework_error, verdict.difference, verdict.tile_difference);
  }
  if (!result.reason.empty()) {
    std::cout << (result.what.starts_with("mutant") && result.passed ? ": rejected: " : ": ")
              << io::printable(result.reason);
  }
  std::cout << '\n' << std::flush;
}

}  // namespace

int run_check(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  require_case(cards, arguments.check.only_case);
  const std::unique_ptr<gpu::Device> device = open_gpu(arguments);
  say(device->info().name);
  const bool one_seed = arguments.check.seeds == 1;
  std::vector<lab::CheckResult> results;
  const int failed = lab::check(
      *device, cards, arguments.check,
      [&](const lab::CheckResult& result) {
        if (arguments.json.leaves_text() && (one_seed || !result.passed)) {
          print_check(result);
        }
        results.push_back(result);
      },
      [&](const lab::SeedResult& seed) {
        if (!arguments.json.leaves_text()) {
          return;
        }
        std::cout << (one_seed ? "" : fmt::format("seed {}: ", seed.seed))
                  << fmt::format("{}/{} passed\n", seed.checked - seed.failed, seed.checked)
                  << std::flush;
      });
  arguments.json.write(nlohmann::ordered_json::parse(lab::to_json(device->info(), results)));
  return failed == 0 ? kDone : kFailed;
}

namespace {

/// The images that the named cards cover, or all images.
std::vector<gpu::KernelImage> images_of(const KernelArguments& arguments) {
  const auto cards = lab::find_cards(arguments.names);
  std::vector<gpu::KernelImage> images;
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    const bool wanted = std::ranges::any_of(cards, [&](const lab::Card* card) {
      return std::ranges::any_of(card->kernels, [&](const lab::KernelLimits& limits) {
        return limits.covers(image.name);
      });
    });
    if (wanted || arguments.names.empty()) {
      images.push_back(image);
    }
  }
  if (images.empty()) {
    throw Error(gpu::kernel_images().empty()
                    ? "this program was built without the CUDA compiler, so it has no kernels"
                    : "these cards have no kernels");
  }
  return images;
}

/// Faults go to a line of their own.
std::string joined(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : fmt::format("    OVER: {}\n", fmt::join(faults, "; "));
}

nlohmann::ordered_json to_json(const lab::ImageReport& report) {
  const gpu::KernelImage& image = *report.image;
  return {{"kernel", image.name},
          {"arch", image.arch},
          {"registers", image.registers},
          {"shared_bytes", image.shared_bytes},
          {"stack_bytes", image.stack_bytes},
          {"spill_bytes", image.spill_store_bytes + image.spill_load_bytes},
          {"instructions", report.instructions},
          {"faults", report.faults}};
}

}  // namespace

int run_resources(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t over = 0;
  auto json = nlohmann::ordered_json::array();
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{:<46} {:<6} {:>5} {:>7} {:>5} {:>5}\n", "kernel", "arch", "regs",
                             "shared", "local", "spilt");
  }
  for (const lab::ImageReport& report : lab::check_resources(lab::find_cards({}), images)) {
    const gpu::KernelImage& image = *report.image;
    over += report.faults.empty() ? 0 : 1;
    json.push_back(to_json(report));
    if (arguments.json.leaves_text()) {
      std::cout << fmt::format("{:<46} sm_{:<3} {:>5} {:>7} {:>5} {:>5}\n{}", image.name,
                               image.arch, image.registers, image.shared_bytes, image.stack_bytes,
                               image.spill_store_bytes + image.spill_load_bytes,
                               joined(report.faults));
    }
  }
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} within their limits\n", images.size() - over, images.size());
  }
  arguments.json.write(json);
  return over == 0 ? kDone : kFailed;
}

int run_sass(const KernelArguments& arguments) {
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  std::size_t wrong = 0;
  auto json = nlohmann::ordered_json::array();
  lab::check_machine_code(lab::find_cards({}), images, [&](const lab::ImageReport& report) {
    wrong += report.faults.empty() ? 0 : 1;
    json.push_back(to_json(report));
    if (arguments.dump) {
      json.back()["machine_code"] = lab::disassemble(*report.image);
    }
    if (!arguments.json.leaves_text()) {
      return;
    }
    std::cout << fmt::format("{:<46} sm_{:<3} {:>8} instructions\n{}", report.image->name,
                             report.image->arch, report.instructions, joined(report.faults));
    if (arguments.dump) {
      std::cout << json.back()["machine_code"].get_ref<const std::string&>() << '\n';
    }
    std::cout << std::flush;
  });
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} have all required instructions and no forbidden ones\n",
                             images.size() - wrong, images.size());
  }
  arguments.json.write(json);
  return wrong == 0 ? kDone : kFailed;
}

}  // namespace fovea::cli
