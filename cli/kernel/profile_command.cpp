// `fovea kernel profile`: profiles the launches of a case and says what bounds them.
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/job_report.hpp"
#include "cli/kernel/profile.hpp"
#include "fovea/error.hpp"
#include "io/atomic_file.hpp"

namespace fovea::cli::kernel {

void write_profiles(const std::vector<lab::Profile>& profiles, const std::string& stem) {
  for (std::size_t i = 0; i < profiles.size() && !stem.empty(); ++i) {
    const std::string number = profiles.size() == 1 ? "" : fmt::format("-{}", i + 1);
    io::write_file_atomically(stem + number + ".json", lab::to_json(profiles[i]) + "\n");
  }
}

namespace {

/// Checks that the output can be written, so that a mistake shows before minutes of profiling.
void require_folder_of(const std::string& file, const char* what) {
  const auto folder = std::filesystem::path(file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw Error(fmt::format("there is no folder {} to write {} into", folder.string(), what));
  }
}

int run_profile(const ProfileOptions& options) {
  const std::string& output = options.output;
  if (options.gate) {
    if (!options.launch.plan.empty()) {
      throw Error("--gate excludes --plan: gates belong to levels");
    }
    if (!output.empty() && !std::filesystem::is_directory(output)) {
      throw Error(
          fmt::format("there is no folder {}: with --gate, --output must name a folder", output));
    }
    const bool is_own = options.launch.sources.empty() && options.launch.changes.empty();
    if (!options.record.empty() && !is_own) {
      throw Error(
          "--record excludes --sources and --parameters: a gate record is about the program's own "
          "kernels");
    }
    require_folder_of(options.record, "the record");
    return profile_gates(options);
  }
  if (!options.record.empty()) {
    throw Error("--record keeps what --gate measures: give --gate, too");
  }
  const std::vector<const lab::Card*> cards =
      cards_with_level(options.cards, options.launch.case_name, options.launch.level);
  if (!output.empty()) {
    if (cards.size() != 1) {
      throw Error("--output takes one card");
    }
    require_folder_of(output, "the profile");
  }
  const Interruption interruption;
  static_cast<void>(open_gpu(options.gpu));
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    lab::CaseSpec launch = options.launch;
    launch.card = card;
    const std::vector<lab::Profile> profiles =
        lab::profile(launch, options.gpu, own_program(), output, Interruption::flag());
    for (const lab::Profile& profile : profiles) {
      json.push_back(nlohmann::ordered_json::parse(lab::to_json(profile)));
      if (options.json.leaves_text()) {
        std::cout << lab::to_text(profile) << std::flush;
      }
    }
    write_profiles(profiles, output);
  }
  options.json.write({{"profiles", std::move(json)}}, "profiles");
  return kDone;
}

}  // namespace

void add_profile(CLI::App& kernel, Run& run) {
  const auto [command, options] = add_card_command(
      kernel, run, "profile", "Run ncu on exactly one case's launches and say what bounds them",
      run_profile);
  add_launch(command, options.gpu, options.launch);
  add_output_text(
      command, "-o,--output", "FILE", options.output, OutputKind::kProfile,
      "Keep ncu's report in FILE.ncu-rep and all figures, stalls, places and findings in "
      "FILE.json; "
      "FILE-1.json, FILE-2.json, ... when the case launches several kernels. With --gate a folder, "
      "which gets those of every case")
      ->group(kOutputGroup);
  add_flag(command, "--gate", options.gate,
           "Compare all cases that have gates, or those of --case and --level, with their gates");
  add_output_text(command, "--record", "FILE", options.record, OutputKind::kGateRecord,
                  "The file that keeps what --gate measured, in the place of what it held: kernels "
                  "are chosen by it where FOVEA_GATE_RECORD names it");
  explain(command,
          {"Beside the counters it names the two or three rules that fire: what the figures mean, "
           "and what to try. Places in the sources need a compiler and nvdisasm."},
          {"fovea kernel profile attention --level wgmma",
           "fovea kernel profile gemm_qkv_bf16 --parameters '{\"stages\": 3}' --output fewer"});
}

}  // namespace fovea::cli::kernel
