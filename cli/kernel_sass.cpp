// `fovea kernel sass`: the machine code of the kernels, against what their cards demand of it; or
// one kernel's, to a file.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/atomic_file.hpp"
#include "io/nearest.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/instruction_kinds.hpp"
#include "lab/code/machine_code.hpp"
#include "lab/code/resources.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli {

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
  if (arguments.kernel.empty() && arguments.arch == 0) {
    return images;
  }
  std::vector<std::string> known;
  std::ranges::transform(images, std::back_inserter(known),
                         [](const gpu::KernelImage& image) { return std::string(image.name); });
  std::erase_if(images, [&](const gpu::KernelImage& image) {
    return (!arguments.kernel.empty() && image.name != arguments.kernel) ||
           (arguments.arch != 0 && image.arch != arguments.arch);
  });
  if (images.empty()) {
    const std::string hint = io::did_you_mean(arguments.kernel, known);
    throw Error(fmt::format("these cards have no kernel {}{}{}", arguments.kernel,
                            arguments.arch == 0 ? "" : fmt::format(" for sm_{}", arguments.arch),
                            hint.empty() ? "; `fovea kernel resources` lists them" : hint));
  }
  return images;
}

std::string over_limits(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : fmt::format("    OVER: {}\n", fmt::join(faults, "; "));
}

namespace {

/// The one kernel of --cfg and --cubin.
const gpu::KernelImage& only(const std::vector<gpu::KernelImage>& images) {
  if (images.size() != 1) {
    throw Error(fmt::format(
        "--cfg and --cubin take one kernel, and these are {}, such as {} for sm_{}: name one with "
        "--kernel, and with --arch where it has code for several",
        images.size(), images.front().name, images.front().arch));
  }
  return images.front();
}

void print_regions(const lab::ImageReport& report) {
  const lab::LinedKernel& lined = *report.lined;
  if (!lined.compiler.empty()) {
    std::cout << fmt::format(
        "    compiled with its lines by {}; its instructions {} those of this "
        "program\n",
        lined.compiler, lined.same ? "are" : "DIFFER from");
  }
  for (const auto& [region, counts] : report.regions) {
    int all = 0;
    std::string told;
    for (const auto& [name, count] : counts) {
      all += count;
      if (lab::kind_of(name) != lab::InstructionKind::kOther) {
        told += fmt::format(", {} {}", count, name);
      }
    }
    if (all > 0) {
      std::cout << fmt::format("    {}: {} instructions{}\n", region, all, told);
    }
  }
}

}  // namespace

int run_sass(const KernelArguments& arguments) {
  if (!arguments.sources.empty() && !(arguments.cubin.empty() && arguments.cfg.empty())) {
    throw Error("--cubin and --cfg write what this program holds: they take no --sources");
  }
  const std::vector<gpu::KernelImage> images = images_of(arguments);
  if (!arguments.cubin.empty()) {
    const std::vector<std::byte> cubin = gpu::unpack(only(images));
    io::write_file_atomically(arguments.cubin,
                              {reinterpret_cast<const char*>(cubin.data()), cubin.size()});
  }
  if (!arguments.cfg.empty()) {
    io::write_file_atomically(arguments.cfg,
                              lab::control_flow_graph(lab::find_cards({}), only(images)));
  }
  std::size_t wrong = 0;
  auto json = nlohmann::ordered_json::array();
  const auto report = [&](const lab::ImageReport& one) {
    wrong += one.faults.empty() ? 0 : 1;
    json.push_back(nlohmann::ordered_json::parse(lab::to_json(one)));
    if (arguments.dump) {
      json.back()["machine_code"] = lab::disassemble(*one.image);
    }
    if (!arguments.json.leaves_text()) {
      return;
    }
    std::cout << fmt::format("{:<50} sm_{:<2} {:>7} instructions\n{}", one.image->name,
                             one.image->arch, one.instructions, over_limits(one.faults));
    if (one.lined != nullptr) {
      print_regions(one);
    }
    if (arguments.dump) {
      std::cout << json.back()["machine_code"].get_ref<const std::string&>() << '\n';
    }
    std::cout << std::flush;
  };
  if (!arguments.sources.empty()) {
    lab::check_machine_code_by_line(lab::find_cards({}), images,
                                    lab::KernelSources::from_folder(arguments.sources), report);
  } else if (arguments.regions) {
    lab::check_machine_code_by_line(lab::find_cards({}), images, report);
  } else {
    lab::check_machine_code(lab::find_cards({}), images, report);
  }
  if (arguments.json.leaves_text()) {
    std::cout << fmt::format("{}/{} have all required instructions and no forbidden ones\n",
                             images.size() - wrong, images.size());
  }
  arguments.json.write({{"kernels", std::move(json)}});
  return wrong == 0 ? kDone : kFailed;
}

}  // namespace fovea::cli
