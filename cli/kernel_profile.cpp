// `fovea kernel profile`: why a case takes as long as it does.
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/job_report.hpp"
#include "cli/kernel_arguments.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "lab/profile/profile.hpp"

namespace fovea::cli {

void write_profiles(const std::vector<lab::Profile>& profiles, const std::string& stem) {
  for (std::size_t i = 0; i < profiles.size() && !stem.empty(); ++i) {
    const std::string number = profiles.size() == 1 ? "" : fmt::format("-{}", i + 1);
    io::write_file_atomically(stem + number + ".json", lab::to_json(profiles[i]) + "\n");
  }
}

namespace {

/// Now, not after minutes.
void require_folder_of(const std::string& file, const char* what) {
  const auto folder = std::filesystem::path(file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw Error(fmt::format("there is no folder {} to write {} into", folder.string(), what));
  }
}

int profile_cards(const KernelArguments& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string& output = arguments.output;
  if (arguments.gate) {
    if (!arguments.plan.empty()) {
      throw Error("gates are of levels: --gate takes no --plan");
    }
    if (!output.empty() && !std::filesystem::is_directory(output)) {
      throw Error(fmt::format("there is no folder {}: with --gate, --output names one", output));
    }
    const bool own = arguments.sources.empty() && arguments.parameters.empty();
    if (!arguments.record.empty() && !own) {
      throw Error(
          "--record is of this program's kernels, which others are chosen by: it takes neither "
          "--sources nor --parameters");
    }
    require_folder_of(arguments.record, "the record");
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
    require_folder_of(output, "the profile");
  }
  const Interruption interruption;
  static_cast<void>(open_gpu(arguments));
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    const std::vector<lab::Profile> profiles =
        lab::profile({.card = card,
                      .case_name = arguments.check.only_case,
                      .level = arguments.level,
                      .plan = arguments.plan,
                      .sources = arguments.sources,
                      .changes = arguments.parameters},
                     arguments.device, self, output, Interruption::flag());
    for (const lab::Profile& one : profiles) {
      json.push_back(nlohmann::ordered_json::parse(lab::to_json(one)));
      if (arguments.json.leaves_text()) {
        std::cout << lab::to_text(one) << std::flush;
      }
    }
    write_profiles(profiles, output);
  }
  arguments.json.write({{"profiles", std::move(json)}}, "profiles");
  return kDone;
}

}  // namespace

int run_profile(const KernelArguments& arguments) {
  try {
    return profile_cards(arguments);
  } catch (const Interrupted&) {
    return kInterrupted;
  }
}

}  // namespace fovea::cli
