// The list of all cards.
#include "lab/cards/registry.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/ranges.h>

#include "core/error.hpp"
#include "gpu/device/kernel_image.hpp"
#include "io/nearest.hpp"

namespace fovea::gpu {
std::vector<KernelImage> lab_kernel_images();  // made by kernels/embed.py
}

namespace fovea::lab {
namespace {

std::vector<Card> gather() {
  gpu::add_kernel_images(gpu::lab_kernel_images());
  std::vector<Card> all;
  for (const auto make : kCardsOfOperators) {
    std::ranges::move(make(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

const std::vector<Card>& cards() {
  static const std::vector<Card> all = gather();
  return all;
}

int first_block_scaled_arch() {
  return std::ranges::find(gpu::kArchs, true, &gpu::Arch::block_scales)->number;
}

std::vector<int> archs_of(const Card& card) {
  std::set<int> archs;
  for (const gpu::KernelInfo& info : gpu::kKernels) {
    for (const KernelLimits& limits : card.kernels) {
      for (const gpu::Target& target : info.targets) {
        const bool is_machine_code = target.arch != 0 && target.code != gpu::Code::kPtx;
        if (is_machine_code && limits.covers(info.name) &&
            (limits.arch == 0 || limits.arch == target.arch)) {
          archs.insert(target.arch);
        }
      }
    }
  }
  return {archs.begin(), archs.end()};
}

std::vector<const Card*> find_cards(std::span<const std::string> names) {
  std::vector<const Card*> found;
  for (const Card& card : cards()) {
    if (names.empty() || std::ranges::find(names, card.name) != names.end()) {
      found.push_back(&card);
    }
  }
  for (const std::string& name : names) {
    if (std::ranges::find(cards(), name, &Card::name) == cards().end()) {
      std::vector<std::string> known;
      std::ranges::transform(cards(), std::back_inserter(known), &Card::name);
      const std::string hint = io::did_you_mean(name, known);
      fail("no kernel card '{}'{}", name, hint.empty() ? "; `fovea kernel list` names all" : hint);
    }
  }
  return found;
}

Case find_case(const Card& card, std::string_view name) {
  if (ProblemFields::are(name)) {
    if (!card.problem) {
      fail("{} has no problems but those of its cases", card.name);
    }
    ProblemFields fields(name);
    Case card_case = card.problem(fields);
    fields.finish(card.name);
    card_case.name = name;
    card_case.bench = true;
    return card_case;
  }
  const auto found = std::ranges::find_if(card.cases, [&](const Case& card_case) {
    return name.empty() ? card_case.bench : card_case.name == name;
  });
  if (found == card.cases.end()) {
    fail("{0} has no case '{1}'; `fovea kernel list -v {0}` names them", card.name, name);
  }
  return *found;
}

std::vector<Case> cases_of(const Card& card, std::string_view name) {
  if (name.empty()) {
    return card.cases;
  }
  if (!ProblemFields::are(name) &&
      std::ranges::find(card.cases, name, &Case::name) == card.cases.end()) {
    return {};
  }
  return {find_case(card, name)};
}

void require_level(const Card& card, std::string_view level) {
  if (card.levels.empty()) {
    fail("{} has no levels, so --level '{}' cannot be used; omit it", card.name, level);
  }
  if (std::ranges::find(card.levels, level) == card.levels.end()) {
    fail("{} has no level '{}'; there are: {}", card.name, level, fmt::join(card.levels, ", "));
  }
}

}  // namespace fovea::lab
