// Proves a kernel on the emulator: the cases run in parallel, each on a device of its own.
#include "lab/emulated/prove_kernel.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "gpu/emulated/emu_device.hpp"
#include "gpu/emulated/emu_orders.hpp"
#include "kernels/archs.hpp"
#include "lab/check/check_cards.hpp"
#include "lab/emulated/check_emulated.hpp"

namespace fovea::lab {
namespace {

std::vector<Case> proof_cases(const Card& card) {
  std::vector<Case> cases;
  std::ranges::copy_if(card.cases, std::back_inserter(cases), [](const Case& card_case) {
    return card_case.check && is_quick_to_emulate(card_case);
  });
  if (!card.emulated.empty()) {
    cases.push_back(find_case(card, card.emulated.front()));
  }
  return cases;
}

/// Runs a case on a device of its own.
ProofResult prove_case(const Card& card, const Case& card_case, const KernelProof& proof) {
  ProofResult result;
  const std::unique_ptr<gpu::Device> emulator =
      gpu::open_emulated_device({.arch = proof.image->arch});
  gpu::KernelCache kernels(*emulator, {proof.image});
  try {
    static_cast<void>(kernels.get(proof.image->kernel));
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    result.why_none = error.what();
    return result;
  }
  const CheckOptions check{
      .seed = proof.seed,
      .small = true,
      .runs = proof.schedules,
      .before_run = [&](int run) { gpu::begin_order(*emulator, order_seed(proof.seed, run)); },
  };
  const auto fail_with = [&](const std::string& reason, bool is_output_wrong) {
    if (result.failure.empty()) {
      result.failure = fmt::format("{}: {}", card_case.name, reason);
      result.is_output_wrong = is_output_wrong;
    }
  };
  try {
    check_case(
        kernels, card, card_case, check,
        [&](const Workload& workload) { return proof.plans(workload, emulator->info()); },
        [&](const CheckResult& found) {
          ++result.checked;
          if (!found.passed) {
            fail_with(found.reason, !found.verdict.passes());
          }
        });
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail_with(error.what(), false);
  }
  return result;
}

}  // namespace

ProofResult prove_kernel(const Card& card, const KernelProof& proof) {
  const gpu::Arch* const arch = gpu::find_arch(proof.image->arch, gpu::kArchs);
  if (arch == nullptr || arch->target.empty()) {
    return {.why_none = fmt::format("the emulator has no sm_{}", proof.image->arch)};
  }
  const std::vector<Case> cases = proof_cases(card);
  std::vector<ProofResult> results(cases.size());
  if (!cases.empty()) {
    ThreadPool pool(std::min(available_threads(), static_cast<int>(cases.size())));
    pool.parallel_for(cases.size(), [&](std::size_t index, int) {
      results[index] = prove_case(card, cases[index], proof);
    });
  }
  ProofResult all{.why_none = "the kernel can run no case that is quick to emulate"};
  for (ProofResult& result : results) {
    all.checked += result.checked;
    if (!result.why_none.empty()) {
      all.why_none = std::move(result.why_none);
    }
    if (all.failure.empty() && !result.failure.empty()) {
      all.failure = std::move(result.failure);
      all.is_output_wrong = result.is_output_wrong;
    }
  }
  return all;
}

}  // namespace fovea::lab
