// `fovea kernel profile`: profiles the launches of a case and reports what bounds them.
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

/// Checks that the output can be written, so that a mistake is reported before minutes of
/// profiling.
void require_parent_folder(const std::string& file, const char* what) {
  const auto folder = std::filesystem::path(file).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw Error(fmt::format("cannot write {1}: there is no folder {0}", folder.string(), what));
  }
}

int run_profile(const ProfileOptions& options) {
  const std::string& output = options.output;
  if (options.gate) {
    if (!options.launch.plan.empty()) {
      throw Error("--gate cannot be used with --plan: gates are defined for levels");
    }
    if (!output.empty() && !std::filesystem::is_directory(output)) {
      throw Error(
          fmt::format("there is no folder {}: with --gate, --output must name a folder", output));
    }
    const bool is_own = options.launch.sources.empty() && options.launch.changes.empty();
    if (!options.record.empty() && !is_own) {
      throw Error(
          "--record cannot be used with --sources and --parameters: a gate record describes the "
          "program's own kernels");
    }
    require_parent_folder(options.record, "the record");
    return profile_gates(options);
  }
  if (!options.record.empty()) {
    throw Error("--record needs --gate: it saves what --gate measures");
  }
  const std::vector<const lab::Card*> cards =
      cards_with_level(options.cards, options.launch.case_name, options.launch.level);
  if (!output.empty()) {
    if (cards.size() != 1) {
      throw Error("--output takes one card");
    }
    require_parent_folder(output, "the profile");
  }
  const Interruption interruption;
  static_cast<void>(open_gpu(options.gpu));
  auto json = nlohmann::ordered_json::array();
  for (const lab::Card* const card : cards) {
    lab::CaseSpec launch = options.launch;
    launch.card = card;
    const std::vector<lab::Profile> profiles =
        lab::profile(launch, options.gpu, current_program(), output, Interruption::flag());
    for (const lab::Profile& profile : profiles) {
      json.push_back(nlohmann::ordered_json::parse(lab::to_json(profile)));
      if (options.json.prints_text()) {
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
      kernel, run, "profile", "Run ncu on exactly one case's launches, and report what bounds them",
      run_profile);
  add_launch(command, options.gpu, options.launch);
  add_output_text(command, "-o,--output", "FILE", options.output, OutputKind::kProfile,
                  "Save ncu's report in FILE.ncu-rep, and all figures, stalls, source lines and "
                  "findings in FILE.json; FILE-1.json, FILE-2.json, ... when the case launches "
                  "several kernels. With --gate a folder, which gets those of every case")
      ->group(kOutputGroup);
  add_flag(command, "--gate", options.gate,
           "Compare all cases that have gates, or those of --case and --level, with their gates");
  add_output_text(command, "--record", "FILE", options.record, OutputKind::kGateRecord,
                  "File to save the measurements of --gate in, which replace its content; "
                  "FOVEA_GATE_RECORD may name it, to determine the choice of kernels");
  explain(command,
          {"In addition to the counters, prints the two or three rules that apply, with the "
           "meaning of the figures and what to try. Source lines need a compiler and nvdisasm."},
          {"fovea kernel profile attention --level wgmma",
           "fovea kernel profile gemm_qkv_bf16 --parameters '{\"stages\": 3}' --output fewer"});
}

}  // namespace fovea::cli::kernel
