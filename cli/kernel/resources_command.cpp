// `fovea kernel resources`: what compiled kernels take, beside the limits of their cards.
#include <cstddef>
#include <iostream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/describe.hpp"
#include "cli/kernel/commands.hpp"
#include "cli/kernel/images.hpp"
#include "cli/kernel/options.hpp"
#include "lab/cards/card.hpp"
#include "lab/code/resources.hpp"

namespace fovea::cli::kernel {
namespace {

int run_resources(const CardOptions& options) {
  const std::vector<gpu::KernelImage> images = images_of(options.cards);
  std::size_t over = 0;
  auto json = nlohmann::ordered_json::array();
  if (options.json.leaves_text()) {
    std::cout << fmt::format("{:<50} {:<5} {:>4} {:>6} {:>5} {:>5}\n", "kernel", "arch", "regs",
                             "shared", "local", "spilt");
  }
  for (const lab::ImageReport& report : lab::check_resources(lab::find_cards({}), images)) {
    const gpu::KernelImage& image = *report.image;
    over += report.faults.empty() ? 0 : 1;
    json.push_back(nlohmann::ordered_json::parse(lab::to_json(report)));
    if (options.json.leaves_text()) {
      std::cout << fmt::format("{:<50} sm_{:<2} {:>4} {:>6} {:>5} {:>5}\n{}", image.name,
                               image.arch, image.registers, image.shared_bytes, image.stack_bytes,
                               image.spill_store_bytes + image.spill_load_bytes,
                               over_limits(report.faults));
    }
  }
  if (options.json.leaves_text()) {
    std::cout << fmt::format("{}/{} within their limits\n", images.size() - over, images.size());
  }
  options.json.write({{"kernels", std::move(json)}});
  return over == 0 ? kDone : kFailed;
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

}  // namespace fovea::cli::kernel
