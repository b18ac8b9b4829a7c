// Cards of the kernels around the patch embedding, whose results are exact.
#include <utility>

#include <fmt/format.h>

#include "lab/pixels_workload.hpp"
#include "lab/registry.hpp"

namespace fovea::lab {
namespace {

Card pixels_card(std::string name, std::string operation, const std::vector<PixelsProblem>& checked,
                 const PixelsProblem& timed) {
  Card card;
  card.name = std::move(name);
  card.operation = std::move(operation);
  card.arch = 80;
  const auto add = [&card](const PixelsProblem& problem, bool bench) {
    Case one;
    one.name = fmt::format("rows{}_width{}", problem.rows, problem.width);
    one.make = [problem](std::uint64_t seed) {
      return std::make_unique<PixelsWorkload>(problem, seed);
    };
    one.bench = bench;
    one.small = !bench;
    one.mutants = !bench && problem.rows == 3;
    card.cases.push_back(std::move(one));
  };
  for (const PixelsProblem& problem : checked) {
    add(problem, false);
  }
  add(timed, true);
  card.tolerance.difference = 0.0;
  card.tolerance.tile_difference = 0.0;
  KernelLimits limits;
  limits.kernel = card.name;
  limits.registers = 64;
  limits.shared_bytes = 0;
  card.kernels = {limits};
  return card;
}

}  // namespace

std::vector<Card> pixels_cards() {
  const auto widen = [](std::int64_t rows, std::int64_t width, std::int64_t stride) {
    return PixelsProblem{.repeat = false, .rows = rows, .width = width, .stride = stride};
  };
  const auto repeat = [](std::int64_t rows, std::int64_t width) {
    return PixelsProblem{.repeat = true, .rows = rows, .width = width};
  };
  std::vector<Card> cards;
  cards.push_back(
      pixels_card("pixels_widen", "u8 pixels less their centre, as bf16",
                  {widen(1, 16, 16), widen(3, 768, 768), widen(729, 588, 592), widen(50, 3, 8)},
                  widen(232064, 768, 768)));
  cards.push_back(pixels_card("pixels_repeat", "the position table under every image",
                              {repeat(1, 8), repeat(3, 768), repeat(65, 1000)},
                              repeat(1184, 196 * 768)));
  return cards;
}

}  // namespace fovea::lab
