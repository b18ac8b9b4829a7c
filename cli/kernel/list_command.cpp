// `fovea kernel list`: lists the cards and their cases.
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/kernel/options.hpp"
#include "lab/card_files/card_file.hpp"
#include "lab/cards/card.hpp"

namespace fovea::cli::kernel {
namespace {

struct ListOptions : CardOptions {
  bool verbose = false;
};

int run_list(const ListOptions& options) {
  const auto cards = lab::named_cards(options.cards);
  const std::unique_ptr<gpu::Device> device =
      options.json.is_requested() ? try_open_gpu(0) : nullptr;
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    if (options.json.is_requested()) {
      json.push_back(
          nlohmann::ordered_json::parse(lab::to_json(*card, device.get(), !options.cards.empty())));
    }
    if (!options.json.prints_text()) {
      continue;
    }
    std::cout << fmt::format("{:<24} {:<20} {}\n", card->name,
                             fmt::format("sm_{}", fmt::join(lab::card_archs(*card), ", sm_")),
                             card->operation);
    for (const lab::Case& listed : card->cases) {
      if (options.verbose) {
        std::cout << fmt::format("    {:<28}{}{}{}\n", listed.name, listed.check ? " check" : "",
                                 listed.mutants ? " mutants" : "", listed.bench ? " bench" : "");
      }
    }
  }
  options.json.write({{"cards", std::move(json)}});
  return kDone;
}

}  // namespace

void add_list(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(kernel, run, "list", "List the cards", run_list);
  add_flag(command, "-v,--verbose", options.verbose, "List their cases, too")->group(kReportGroup);
  explain(command, {}, {"fovea kernel list", "fovea kernel list -v attention"});
}

}  // namespace fovea::cli::kernel
