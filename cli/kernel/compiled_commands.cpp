// Commands on compiled kernels. `fovea kernel resources` compares their resources with the limits
// of their cards. `fovea kernel sass` compares their machine code with the requirements of their
// cards, or writes the machine code of one kernel to a file.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/atomic_file.hpp"
#include "io/nearest.hpp"
#include "lab/card_files/card_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/instruction_kinds.hpp"
#include "lab/code/machine_code.hpp"
#include "lab/code/resources.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli::kernel {
namespace {

struct SassOptions : CardOptions {
  std::string kernel;
  int arch = 0;         // 0: all architectures
  std::string sources;  // folder with the kernels' sources; empty: the program's own
  bool regions = false;
  bool dump = false;
  std::string cfg;    // file for a kernel's control flow
  std::string cubin;  // file for the machine code of a kernel
};

/// Returns the kernels of the named cards, or all kernels when no card is named, filtered by the
/// name `kernel` unless it is empty and by `arch` unless it is 0. Throws fovea::Error when there
/// are none.
std::vector<gpu::KernelImage> select_images(std::span<const std::string> cards_named,
                                            const std::string& kernel = {}, int arch = 0) {
  const auto cards = lab::named_cards(cards_named);
  std::vector<gpu::KernelImage> images;
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    const bool is_selected = std::ranges::any_of(cards, [&](const lab::Card* card) {
      return std::ranges::any_of(card->kernels, [&](const lab::KernelLimits& limits) {
        return limits.covers(image.name);
      });
    });
    if (is_selected || cards_named.empty()) {
      images.push_back(image);
    }
  }
  if (images.empty()) {
    throw Error(gpu::kernel_images().empty()
                    ? "this program was built without the CUDA compiler, so it has no kernels"
                    : "these cards have no kernels");
  }
  if (kernel.empty() && arch == 0) {
    return images;
  }
  std::vector<std::string> kernel_names;
  std::ranges::transform(images, std::back_inserter(kernel_names),
                         [](const gpu::KernelImage& image) { return std::string(image.name); });
  std::erase_if(images, [&](const gpu::KernelImage& image) {
    return (!kernel.empty() && image.name != kernel) || (arch != 0 && image.arch != arch);
  });
  if (images.empty()) {
    const std::string hint = io::did_you_mean(kernel, kernel_names);
    throw Error(fmt::format("these cards have no kernel {}{}{}", kernel,
                            arch == 0 ? "" : fmt::format(" for sm_{}", arch),
                            hint.empty() ? "; `fovea kernel resources` lists them" : hint));
  }
  return images;
}

/// Returns all cards of the program, whose limits hold for each of its kernels, and the files among
/// the named ones.
std::vector<const lab::Card*> all_cards(std::span<const std::string> cards_named) {
  std::vector<const lab::Card*> cards = lab::find_cards({});
  std::ranges::copy_if(lab::named_cards(cards_named), std::back_inserter(cards),
                       [](const lab::Card* card) { return lab::is_card_file(card->name); });
  return cards;
}

/// Formats the exceeded limits of a kernel as a line; "" when there are none.
std::string exceeded_limits_text(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : fmt::format("    OVER: {}\n", fmt::join(faults, "; "));
}

int run_resources(const CardOptions& options) {
  const std::vector<gpu::KernelImage> images = select_images(options.cards);
  std::size_t exceeding = 0;
  auto json = nlohmann::ordered_json::array();
  if (options.json.prints_text()) {
    std::cout << fmt::format("{:<50} {:<5} {:>4} {:>6} {:>5} {:>5}\n", "kernel", "arch", "regs",
                             "shared", "local", "spilt");
  }
  for (const lab::ImageReport& report : lab::check_resources(all_cards(options.cards), images)) {
    const gpu::KernelImage& image = *report.image;
    exceeding += report.faults.empty() ? 0 : 1;
    json.push_back(nlohmann::ordered_json::parse(lab::to_json(report)));
    if (options.json.prints_text()) {
      std::cout << fmt::format("{:<50} sm_{:<2} {:>4} {:>6} {:>5} {:>5}\n{}", image.name,
                               image.arch, image.registers, image.shared_bytes, image.stack_bytes,
                               image.spill_store_bytes + image.spill_load_bytes,
                               exceeded_limits_text(report.faults));
    }
  }
  if (options.json.prints_text()) {
    std::cout << fmt::format("{}/{} within their limits\n", images.size() - exceeding,
                             images.size());
  }
  options.json.write({{"kernels", std::move(json)}});
  return exceeding == 0 ? kDone : kFailed;
}

/// Returns the single kernel for --cfg and --cubin, or throws when several are selected.
const gpu::KernelImage& single_image(const std::vector<gpu::KernelImage>& images) {
  if (images.size() != 1) {
    throw Error(fmt::format(
        "--cfg and --cubin take one kernel, but {} are selected, such as {} for sm_{}: select one "
        "with --kernel, and with --arch if it has code for several architectures",
        images.size(), images.front().name, images.front().arch));
  }
  return images.front();
}

void print_regions(const lab::ImageReport& report) {
  const lab::LinedKernel& lined_kernel = *report.lined;
  if (!lined_kernel.compiler.empty()) {
    std::cout << fmt::format(
        "    compiled with line information by {}; its instructions {} those of this program\n",
        lined_kernel.compiler, lined_kernel.same ? "are" : "DIFFER from");
  }
  for (const auto& [region, counts] : report.regions) {
    int total = 0;
    std::string kind_counts;
    for (const auto& [name, count] : counts) {
      total += count;
      if (lab::kind_of(name) != lab::InstructionKind::kOther) {
        kind_counts += fmt::format(", {} {}", count, name);
      }
    }
    if (total > 0) {
      std::cout << fmt::format("    {}: {} instructions{}\n", region, total, kind_counts);
    }
  }
}

int run_sass(const SassOptions& options) {
  if (!options.sources.empty() && !(options.cubin.empty() && options.cfg.empty())) {
    throw Error(
        "--cubin and --cfg cannot be used with --sources: they write the program's own kernels");
  }
  const std::vector<gpu::KernelImage> images =
      select_images(options.cards, options.kernel, options.arch);
  if (!options.cubin.empty()) {
    const std::vector<std::byte> cubin = gpu::unpack(single_image(images));
    io::write_file_atomically(options.cubin,
                              {reinterpret_cast<const char*>(cubin.data()), cubin.size()});
  }
  if (!options.cfg.empty()) {
    io::write_file_atomically(
        options.cfg, lab::control_flow_graph(all_cards(options.cards), single_image(images)));
  }
  std::size_t faulty = 0;
  auto json = nlohmann::ordered_json::array();
  const auto report = [&](const lab::ImageReport& image_report) {
    faulty += image_report.faults.empty() ? 0 : 1;
    json.push_back(nlohmann::ordered_json::parse(lab::to_json(image_report)));
    if (options.dump) {
      json.back()["machine_code"] = lab::disassemble(*image_report.image);
    }
    if (!options.json.prints_text()) {
      return;
    }
    std::cout << fmt::format("{:<50} sm_{:<2} {:>7} instructions\n{}", image_report.image->name,
                             image_report.image->arch, image_report.instructions,
                             exceeded_limits_text(image_report.faults));
    if (image_report.lined != nullptr) {
      print_regions(image_report);
    }
    if (options.dump) {
      std::cout << json.back()["machine_code"].get_ref<const std::string&>() << '\n';
    }
    std::cout << std::flush;
  };
  if (!options.sources.empty()) {
    lab::check_machine_code(all_cards(options.cards), images,
                            lab::KernelSources::from_folder(options.sources), report);
  } else {
    lab::check_machine_code(all_cards(options.cards), images, options.regions, report);
  }
  if (options.json.prints_text()) {
    std::cout << fmt::format("{}/{} have all required instructions and no forbidden ones\n",
                             images.size() - faulty, images.size());
  }
  options.json.write({{"kernels", std::move(json)}});
  return faulty == 0 ? kDone : kFailed;
}

}  // namespace

void add_resources(CLI::App& kernel, Run& run) {
  const auto [command, options] =
      add_card_command(kernel, run, "resources",
                       "Compare registers, shared and local memory of the compiled kernels "
                       "with the limits of their cards",
                       run_resources);
  explain(command, {}, {"fovea kernel resources"});
}

void add_sass(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "sass",
      "Compare the instructions of the compiled kernels with the requirements of their cards",
      run_sass);
  add_only_kernel(command, options.kernel);
  add_integer(command, "--arch", {50, 999}, options.arch,
              "Only machine code for this architecture");
  add_sources(command, options.sources);
  begin_group(command, kReportGroup);
  add_flag(command, "--regions", options.regions,
           "Also count instructions by region of the sources, in code that ptxas compiles from the "
           "program's PTX with line information");
  add_flag(command, "--dump", options.dump, "Also print the machine code");
  add_output_text(command, "--cfg", "FILE", options.cfg, OutputKind::kGraph,
                  "Write one kernel's control flow, by role, for graphviz's dot");
  add_output_text(command, "--cubin", "FILE", options.cubin, OutputKind::kMachineCode,
                  "Write the machine code of one kernel's unit");
  explain(command,
          {"The roles of a kernel whose warps are specialised must be disjoint: no path leads from "
           "one to another, and only barriers join them."},
          {"fovea kernel sass gemm_qkv_int8", "fovea kernel sass gemm_out_bf16 --regions"});
}

}  // namespace fovea::cli::kernel
