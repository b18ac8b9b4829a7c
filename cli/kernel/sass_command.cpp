// `fovea kernel sass`: the machine code of the kernels, against what their cards demand of it; or
// one kernel's, to a file.
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/describe.hpp"
#include "cli/kernel/commands.hpp"
#include "cli/kernel/images.hpp"
#include "cli/kernel/options.hpp"
#include "cli/options.hpp"
#include "fovea/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/atomic_file.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/instruction_kinds.hpp"
#include "lab/code/machine_code.hpp"
#include "lab/code/resources.hpp"
#include "lab/system/kernel_sources.hpp"

namespace fovea::cli::kernel {
namespace {

struct SassOptions : CardOptions {
  std::string kernel;
  int arch = 0;         // 0: all
  std::string sources;  // the folder with the kernels' sources; empty: the program's own
  bool regions = false;
  bool dump = false;
  std::string cfg;    // the file for a kernel's control flow
  std::string cubin;  // the file for its machine code
};

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

int run_sass(const SassOptions& options) {
  if (!options.sources.empty() && !(options.cubin.empty() && options.cfg.empty())) {
    throw Error("--cubin and --cfg write what this program holds: they take no --sources");
  }
  const std::vector<gpu::KernelImage> images =
      images_of(options.cards, options.kernel, options.arch);
  if (!options.cubin.empty()) {
    const std::vector<std::byte> cubin = gpu::unpack(only(images));
    io::write_file_atomically(options.cubin,
                              {reinterpret_cast<const char*>(cubin.data()), cubin.size()});
  }
  if (!options.cfg.empty()) {
    io::write_file_atomically(options.cfg,
                              lab::control_flow_graph(lab::find_cards({}), only(images)));
  }
  std::size_t wrong = 0;
  auto json = nlohmann::ordered_json::array();
  const auto report = [&](const lab::ImageReport& image_report) {
    wrong += image_report.faults.empty() ? 0 : 1;
    json.push_back(nlohmann::ordered_json::parse(lab::to_json(image_report)));
    if (options.dump) {
      json.back()["machine_code"] = lab::disassemble(*image_report.image);
    }
    if (!options.json.leaves_text()) {
      return;
    }
    std::cout << fmt::format("{:<50} sm_{:<2} {:>7} instructions\n{}", image_report.image->name,
                             image_report.image->arch, image_report.instructions,
                             over_limits(image_report.faults));
    if (image_report.lined != nullptr) {
      print_regions(image_report);
    }
    if (options.dump) {
      std::cout << json.back()["machine_code"].get_ref<const std::string&>() << '\n';
    }
    std::cout << std::flush;
  };
  if (!options.sources.empty()) {
    lab::check_machine_code(lab::find_cards({}), images,
                            lab::KernelSources::from_folder(options.sources), report);
  } else {
    lab::check_machine_code(lab::find_cards({}), images, options.regions, report);
  }
  if (options.json.leaves_text()) {
    std::cout << fmt::format("{}/{} have all required instructions and no forbidden ones\n",
                             images.size() - wrong, images.size());
  }
  options.json.write({{"kernels", std::move(json)}});
  return wrong == 0 ? kDone : kFailed;
}

}  // namespace

void add_sass(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "sass",
      "Compare the instructions of the compiled kernels with what their cards demand", run_sass);
  add_only_kernel(command, options.kernel);
  add_whole(command, "--arch", {50, 999}, options.arch, "Only machine code for this architecture")
      ->group(kInputGroup);
  add_sources(command, options.sources);
  add_flag(command, "--regions", options.regions,
           "Also count instructions by region of the sources, of what ptxas makes of the program's "
           "PTX with its lines")
      ->group(kReportGroup);
  add_flag(command, "--dump", options.dump, "Also print the machine code")->group(kReportGroup);
  names_output(command,
               add_text(command, "--cfg", "FILE", options.cfg,
                        "Write one kernel's control flow, by role, for graphviz's dot")
                   ->group(kReportGroup),
               OutputKind::kGraph);
  names_output(command,
               add_text(command, "--cubin", "FILE", options.cubin,
                        "Write the machine code of one kernel's unit")
                   ->group(kReportGroup),
               OutputKind::kMachineCode);
  explain(command,
          {"The roles of a kernel whose warps are specialised must be disjoint: no path leads from "
           "one to another, and only barriers join them."},
          {"fovea kernel sass gemm_qkv_int8", "fovea kernel sass gemm_out_bf16 --regions"});
}

}  // namespace fovea::cli::kernel
