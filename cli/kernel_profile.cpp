// `fovea kernel profile`: why a case takes as long as it does.
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "fovea/error.hpp"
#include "io/atomic_file.hpp"
#include "lab/profile.hpp"

namespace fovea::cli {

int run_profile(const KernelArguments& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string& output = arguments.output;
  if (arguments.gate) {
    if (!output.empty() || !arguments.plan.empty()) {
      throw Error(
          "gates are of levels, and have a record of their own: --gate takes no --output or "
          "--plan");
    }
    return run_gates(arguments);
  }
  if (!arguments.record.empty()) {
    throw Error("--record keeps what --gate measures: give --gate, too");
  }
  const std::vector<const lab::Card*> cards = cards_to_run(arguments);
  if (!output.empty()) {
    if (cards.size() != 1) {
      throw Error("--output takes one card");
    }
    const auto folder = std::filesystem::path(output).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder)) {
      throw Error(fmt::format("there is no folder {} to write the profile into", folder.string()));
    }
  }
  static_cast<void>(open_gpu(arguments));
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    const std::vector<lab::Profile> profiles = lab::profile({.card = card,
                                                             .case_name = arguments.check.only_case,
                                                             .level = arguments.level,
                                                             .plan = arguments.plan,
                                                             .sources = arguments.sources,
                                                             .changes = arguments.parameters},
                                                            arguments.device, self, output);
    for (const lab::Profile& one : profiles) {
      const std::string text = lab::to_json(one);
      json.push_back(nlohmann::ordered_json::parse(text));
      if (arguments.json.leaves_text()) {
        std::cout << lab::to_text(one) << std::flush;
      }
      if (!output.empty()) {
        const std::string number =
            profiles.size() == 1 ? "" : fmt::format("-{}", json.size());  // of the launch
        io::write_file_atomically(output + number + ".json", text + "\n");
      }
    }
  }
  arguments.json.write(json);
  return kDone;
}

}  // namespace fovea::cli
