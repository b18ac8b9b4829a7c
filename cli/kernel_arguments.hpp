// The arguments of `fovea kernel`, and what its commands do with them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/json_output.hpp"
#include "gpu/device/device.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/cards/card.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/emulated/check_emulated.hpp"
#include "lab/evolve/candidate.hpp"
#include "lab/evolve/evolve.hpp"
#include "lab/measure/bench_cards.hpp"
#include "lab/measure/compare.hpp"
#include "lab/profile/profile.hpp"
#include "lab/sanitize/sanitize.hpp"

namespace fovea::cli {

/// In what side B of `fovea kernel compare` differs from A, and how they are compared.
struct CompareArguments {
  std::string program;  // of A; empty: this one
  std::string with_program;
  std::string with_plan;
  std::string with_level;
  std::string with_sources;
  std::optional<std::map<std::string, int>> with_parameters;
  bool profile = false;
  double threshold_percent = 0.0;  // 0: the usual one
  int most_pairs = lab::PairsWanted{}.most;
  std::string csv;
};

/// Of `fovea kernel export` and `fovea kernel judge`.
struct JudgeArguments {
  bool kernelbench = false;  // the format to export in
  std::string output;        // what is exported
  std::string task;
  std::string answer;
  std::string device = "cuda";
  int seeds = 5;
  int time_limit = 600;  // seconds
  bool time = true;
  bool compile = true;
};

/// What `fovea kernel evolve` alone takes.
struct EvolveArguments {
  std::string population = "best";
  std::string budget_text;
  lab::EvolveBudget budget{.trials = 0, .seconds = 1200};
  int patience = 8;
  std::vector<std::string> proposer;  // empty: the built-in one
  std::map<std::string, int> start;
  std::string ledger;
  bool resume = false;
  bool overwrite = false;
  double candidate_seconds = 120;
  double answer_seconds = 120;
};

/// What `fovea kernel mutate` alone takes.
struct MutateArguments {
  int schedules = 50;  // mutation::ScoreOptions
  int most = 0;
  int line = 0;
  double least_percent = 0.0;  // caught, or the exit code is 1
  bool caught = false;         // those are printed, too
};

/// What `fovea kernel predict` alone takes.
struct PredictArguments {
  std::string gpu = "h200";
  bool counts = false;  // those of the units, counted anew, in the place of times
};

struct KernelArguments {
  std::vector<std::string> names;
  int device = 0;
  lab::CheckOptions check;
  std::string emulator;  // "emu:sm_80": what `check` runs on in the place of a GPU; empty: a GPU
  int schedules = lab::EmulatedCheckOptions{}.schedules;
  std::string captures;      // the file of what a GPU computed, for `check`; empty: none
  int schedule = 0;          // that `emulate` runs
  bool overlapping = false;  // and how
  std::string trace;         // the file for what ran; empty: none
  int words = 0;             // that `capture` keeps of each output; 0: as many as is usual
  lab::BenchOptions bench;
  JsonOutput json;
  JudgeArguments judge;
  bool verbose = false;
  bool dump = false;
  std::string level;
  bool gate = false;
  std::string output;  // the file or folder to write; of a profile, its name without the end
  std::string record;  // the file that the gates' record goes to
  int times = 1;
  bool steps = false;
  std::string plan;
  std::string kernel;
  std::map<std::string, int> parameters;  // of the kernel, that differ
  std::string sources;                    // the folder with the kernels' sources; empty: our own
  bool batch = false;                     // candidates come one a line
  std::string unit;                       // the file that replaces the kernel's own; empty: none
  CompareArguments compare;
  int arch = 0;  // of the kernels to look at; 0: all
  bool regions = false;
  std::string cfg;    // the file for a kernel's control flow
  std::string cubin;  // the file for its machine code
  lab::SanitizeOptions sanitize;
  int most_seconds = 0;  // that `try` may take; 0: any time
  EvolveArguments evolve;
  MutateArguments mutate;
  PredictArguments predict;
  std::string against;  // earlier results, which `bench` compares times with; empty: committed ones
};

/// Values of tuning parameters, as --parameters takes them; none unless it is an object of whole
/// numbers.
[[nodiscard]] std::optional<std::map<std::string, int>> parameters_in(const nlohmann::json& json);

using OpenGpu = std::function<std::unique_ptr<gpu::Device>(int index)>;

/// The GPU of --gpu.
[[nodiscard]] std::unique_ptr<gpu::Device> open_gpu(
    const KernelArguments& arguments,
    const OpenGpu& open = [](int index) { return gpu::open_cuda_device(index); });

/// The same, but null where there is none.
[[nodiscard]] std::unique_ptr<gpu::Device> open_gpu_if_any(const KernelArguments& arguments);

/// The one card, its case and level. Throws fovea::Error unless there is one card.
[[nodiscard]] lab::CandidateSetting candidate_setting_of(const KernelArguments& arguments);

/// Those of --sources, or the program's own.
[[nodiscard]] lab::KernelSources kernel_sources_of(const KernelArguments& arguments);

/// Throws fovea::Error unless one of the cards has the case, before a GPU is opened.
void require_case(const std::vector<const lab::Card*>& cards, const std::string& name);

/// The named cards, each of which must have the case and the level; checked before a GPU is opened.
[[nodiscard]] std::vector<const lab::Card*> cards_to_run(const KernelArguments& arguments);

/// The kernels that the named cards cover, or all kernels; of them those that --kernel and --arch
/// name. Throws fovea::Error when there are none.
[[nodiscard]] std::vector<gpu::KernelImage> images_of(const KernelArguments& arguments);

/// Faults of a kernel, on a line of their own.
[[nodiscard]] std::string over_limits(const std::vector<std::string>& faults);

/// Those of `fovea kernel mutate` alone.
void add_mutate_options(CLI::App& command, KernelArguments& arguments);
/// Those of `fovea kernel predict` alone.
void add_predict_options(CLI::App& command, KernelArguments& arguments);

// Each returns the exit code.
int run_list(const KernelArguments& arguments);
int run_check(const KernelArguments& arguments);
int run_check_emulated(const KernelArguments& arguments,
                       const std::vector<const lab::Card*>& cards);
int run_capture(const KernelArguments& arguments);
int run_kernel_emulate(const KernelArguments& arguments);
/// A line of `check`.
void print_check(const lab::CheckResult& result);
int run_kernel_bench(const KernelArguments& arguments);
int run_once(const KernelArguments& arguments);
int run_compare(const KernelArguments& arguments);
int run_profile(const KernelArguments& arguments);
int run_gates(const KernelArguments& arguments);
/// STEM.json, or STEM-1.json, STEM-2.json, ... of several launches; nothing without a stem.
void write_profiles(const std::vector<lab::Profile>& profiles, const std::string& stem);
int run_resources(const KernelArguments& arguments);
int run_predict(const KernelArguments& arguments);
int run_parameters(const KernelArguments& arguments);
int run_try(const KernelArguments& arguments);
int run_export(const KernelArguments& arguments);
int run_judge(const KernelArguments& arguments);
int run_sanitize(const KernelArguments& arguments);
int run_evolve(const KernelArguments& arguments);
int run_mutate(const KernelArguments& arguments);
int run_sass(const KernelArguments& arguments);

}  // namespace fovea::cli
