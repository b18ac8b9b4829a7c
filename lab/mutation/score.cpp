// Draws mutants, runs each of them until it is caught, and computes the score.
#include "lab/mutation/score.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "gpu/device/kernel_image.hpp"
#include "lab/mutation/case_run.hpp"
#include "lab/mutation/ptx_text.hpp"
#include "lab/system/in_order.hpp"

namespace fovea::mutation {
namespace {

/// Maximal number of cases with which a mutant is run.
constexpr std::size_t kMaxCases = 24;
/// Limit for the operations of a mutant: a multiple of the number for the unmodified kernel, plus a
/// constant.
constexpr std::uint64_t kStepsFactor = 10;
constexpr std::uint64_t kStepsOffset = 10'000;

/// One in this many schedules also runs the case behind grids that it may overlap with.
constexpr int kOverlapping = 4;

/// A kernel, and the cases that launch it.
struct Target {
  std::string name;
  std::string ptx;                     // PTX of its unit
  std::vector<const CaseRun*> runs{};  // runs of cases that launch it, in the order of use
};

/// Orders the runs, which are sorted by arithmetic: the smallest, the largest, then those halfway
/// between, and so on.
std::vector<const CaseRun*> order_runs(const std::vector<const CaseRun*>& runs) {
  std::vector<const CaseRun*> order = {runs.front()};
  const auto add = [&](std::size_t i) {
    if (std::ranges::find(order, runs[i]) == order.end()) {
      order.push_back(runs[i]);
    }
  };
  for (std::size_t parts = 1; order.size() < runs.size(); parts *= 2) {
    for (std::size_t i = parts; i > 0; --i) {
      add((runs.size() - 1) * i / parts);
    }
  }
  return order;
}

/// One mutant to run.
struct Job {
  const Target* target = nullptr;
  PtxMutant mutant;
};

std::vector<Target> find_targets(const std::vector<std::unique_ptr<CaseRun>>& runs,
                                 const ScoreOptions& options) {
  std::vector<Target> targets;
  for (const auto& run : runs) {
    for (const gpu::KernelId kernel : run->kernels()) {
      const std::string name(gpu::info_of(kernel).name);
      if (!options.only_kernel.empty() && name != options.only_kernel) {
        continue;
      }
      auto target = std::ranges::find(targets, name, &Target::name);
      if (target == targets.end()) {
        const gpu::KernelImage* const image = gpu::find_kernel_image(kernel, options.arch);
        if (image == nullptr) {
          fail("kernel {} is not built for sm_{}", name, options.arch);
        }
        targets.push_back({.name = name, .ptx = gpu::kernel_ptx(*image)});
        target = std::prev(targets.end());
      }
      target->runs.push_back(run.get());
    }
  }
  for (Target& target : targets) {
    target.runs = order_runs(target.runs);
  }
  return targets;
}

/// Draws up to `limit` mutants, with similar numbers of each kind.
std::vector<PtxMutant> draw_mutants(std::vector<PtxMutant> mutants, std::size_t limit,
                                    std::mt19937_64& random) {
  if (limit == 0 || mutants.size() <= limit) {
    return mutants;
  }
  std::vector<std::size_t> order(mutants.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::ranges::shuffle(order, random);
  std::map<std::string, std::size_t> of_kind;
  std::vector<std::pair<std::size_t, std::size_t>> turns;  // rank within the kind, and index
  turns.reserve(order.size());
  for (const std::size_t i : order) {
    turns.emplace_back(of_kind[mutants[i].kind]++, i);
  }
  std::ranges::stable_sort(turns, {}, &std::pair<std::size_t, std::size_t>::first);
  turns.resize(limit);
  std::ranges::sort(turns, {}, &std::pair<std::size_t, std::size_t>::second);
  std::vector<PtxMutant> chosen;
  chosen.reserve(turns.size());
  for (const auto& [turn, i] : turns) {
    chosen.push_back(std::move(mutants[i]));
  }
  return chosen;
}

std::vector<Job> draw_jobs(const std::vector<Target>& targets, const ScoreOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<Job> jobs;
  for (const Target& target : targets) {
    std::vector<PtxMutant> mutants = make_mutants(target.ptx, target.name);
    if (options.only_line != 0) {
      std::erase_if(mutants,
                    [&](const PtxMutant& mutant) { return mutant.line != options.only_line; });
    } else {
      const Reach& reach = target.runs.front()->reach();
      for (std::size_t map = 0; map < reach.tensor_maps.size(); ++map) {
        if (reach.tensor_maps[map]) {
          mutants.push_back(tensor_map_mutant(target.name, static_cast<int>(map)));
        }
      }
    }
    for (PtxMutant& mutant :
         draw_mutants(std::move(mutants), static_cast<std::size_t>(options.limit), random)) {
      jobs.push_back({&target, std::move(mutant)});
    }
  }
  return jobs;
}

bool reaches(const CaseRun& run, const PtxMutant& mutant) {
  const Reach& reach = run.reach();
  if (mutant.tensor_map >= 0) {
    const auto map = static_cast<std::size_t>(mutant.tensor_map);
    return map < reach.tensor_maps.size() && reach.tensor_maps[map];
  }
  const auto lines = reach.lines.find(mutant.kernel);
  return lines != reach.lines.end() && lines->second.contains(mutant.line);
}

gpu::EmuOptions make_edits(const Job& job, const CaseRun& run) {
  gpu::EmuOptions edits;
  edits.max_steps = run.reach().steps * kStepsFactor + kStepsOffset;
  std::set<std::string, std::less<>> names;
  for (const gpu::KernelId kernel : run.kernels()) {
    names.emplace(gpu::info_of(kernel).name);
  }
  // Removes the kernels that the case does not launch, to save the time for parsing them.
  edits.edit_ptx = [&job, names](std::string_view ptx) {
    if (ptx != job.target->ptx) {
      return std::string(ptx);
    }
    return with_only(job.mutant.tensor_map < 0 ? job.mutant.applied(ptx) : ptx, names);
  };
  if (job.mutant.tensor_map >= 0) {
    edits.edit_map = [index = job.mutant.tensor_map, number = 0](gpu::TensorMapDesc& map) mutable {
      if (number++ == index) {
        change_swizzle(map);
      }
    };
  }
  return edits;
}

MutantResult run_mutant(const Job& job, const ScoreOptions& options) {
  MutantResult result{.mutant = job.mutant};
  std::vector<const CaseRun*> runs;                  // runs of cases that execute the mutated line
  std::vector<std::optional<std::uint64_t>> hashes;  // hash of the last output of each run
  // Takes cases alternately from both ends of the order: pipelines do not wrap around in small
  // cases.
  auto next = job.target->runs.begin();
  auto last = job.target->runs.end();
  for (int schedule = 0; schedule < options.schedules; ++schedule) {
    while (runs.size() < kMaxCases && runs.size() <= static_cast<std::size_t>(schedule) &&
           next != last) {
      const CaseRun* const candidate = runs.size() % 2 == 0 ? *next++ : *--last;
      if (reaches(*candidate, job.mutant)) {
        runs.push_back(candidate);
      }
    }
    if (runs.empty()) {
      return result;
    }
    hashes.resize(runs.size());
    const std::size_t turn = static_cast<std::size_t>(schedule) % runs.size();
    const CaseRun& run = *runs[turn];
    gpu::EmuOptions edits = make_edits(job, run);
    edits.seed = options.seed + static_cast<std::uint64_t>(schedule);
    const RunResult outcome = run.run(edits, schedule % kOverlapping == 0);
    ++result.schedules;
    result.case_name = run.name();
    result.reason = outcome.finding.empty() ? outcome.wrong : outcome.finding;
    if (result.reason.empty() && hashes[turn].value_or(outcome.hash) != outcome.hash) {
      result.reason = "the output differs from that of another schedule";
    }
    hashes[turn] = outcome.hash;
    if (!result.reason.empty()) {
      result.fate = Fate::kCaught;
      return result;
    }
  }
  result.case_name = runs.front()->name();
  result.fate = Fate::kSurvived;
  return result;
}

struct Row {
  std::string_view kind;
  int caught = 0;
  int reached = 0;
  int not_reached = 0;
};

std::string_view fate_name(Fate fate) {
  constexpr std::array<std::string_view, 3> kNames = {"caught", "survived", "not reached"};
  return kNames.at(static_cast<std::size_t>(fate));
}

void count(Row& row, const MutantResult& result) {
  row.caught += result.fate == Fate::kCaught ? 1 : 0;
  row.reached += result.fate == Fate::kNotReached ? 0 : 1;
  row.not_reached += result.fate == Fate::kNotReached ? 1 : 0;
}

}  // namespace

std::vector<MutantResult> score(const std::vector<const lab::Card*>& cards,
                                const ScoreOptions& options,
                                const std::function<void(const MutantResult&)>& report) {
  const std::vector<std::unique_ptr<CaseRun>> runs =
      case_runs(cards, options.only_case, options.arch, options.seed);
  const std::vector<Target> targets = find_targets(runs, options);
  const std::vector<Job> jobs = draw_jobs(targets, options);
  if (jobs.empty()) {
    fail(
        "there are no mutants: this program has no kernels of these cards for sm_{}, none of their "
        "cases is small enough, or nothing can be mutated at the given --kernel and --line",
        options.arch);
  }
  std::vector<MutantResult> results;
  ThreadPool pool(std::min(available_threads(), static_cast<int>(jobs.size())));
  lab::in_order(
      pool, jobs.size(), [&](std::size_t index, int) { return run_mutant(jobs[index], options); },
      [&](MutantResult result) {
        results.push_back(std::move(result));
        report(results.back());
      });
  return results;
}

double share_caught(const std::vector<MutantResult>& results) {
  Row all{};
  for (const MutantResult& result : results) {
    count(all, result);
  }
  return all.reached == 0 ? 1.0 : static_cast<double>(all.caught) / all.reached;
}

std::string score_table(const std::vector<MutantResult>& results) {
  std::vector<Row> rows;
  for (const MutantResult& result : results) {
    if (std::ranges::find(rows, result.mutant.kind, &Row::kind) == rows.end()) {
      rows.push_back({.kind = result.mutant.kind});
    }
  }
  std::ranges::sort(rows, {}, &Row::kind);
  rows.push_back({.kind = "all"});
  for (const MutantResult& result : results) {
    count(*std::ranges::find(rows, result.mutant.kind, &Row::kind), result);
    count(rows.back(), result);
  }
  std::string text =
      fmt::format("{:<44} {:>6} {:>7} {:>11}\n", "", "caught", "reached", "not reached");
  for (const Row& row : rows) {
    fmt::format_to(std::back_inserter(text), "{:<44} {:>6} {:>7} {:>11}\n", row.kind, row.caught,
                   row.reached, row.not_reached);
  }
  return text;
}

std::string to_json(const ScoreOptions& options, const std::vector<MutantResult>& results) {
  auto mutants = nlohmann::ordered_json::array();
  for (const MutantResult& result : results) {
    mutants.push_back({{"kernel", result.mutant.kernel},
                       {"kind", result.mutant.kind},
                       {"line", result.mutant.line},
                       {"source", result.mutant.source},
                       {"change", result.mutant.change},
                       {"fate", fate_name(result.fate)},
                       {"schedules", result.schedules},
                       {"case", result.case_name},
                       {"reason", result.reason}});
  }
  return nlohmann::ordered_json{{"arch", options.arch},
                                {"seed", options.seed},
                                {"schedules", options.schedules},
                                {"caught", share_caught(results)},
                                {"mutants", std::move(mutants)}}
      .dump(1);
}

}  // namespace fovea::mutation
