// Finds the compiled kernels of cards.
#include "cli/kernel/images.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fovea/error.hpp"
#include "io/nearest.hpp"
#include "lab/cards/card.hpp"

namespace fovea::cli::kernel {

std::vector<gpu::KernelImage> images_of(std::span<const std::string> cards_named,
                                        const std::string& kernel, int arch) {
  const auto cards = lab::find_cards(cards_named);
  std::vector<gpu::KernelImage> images;
  for (const gpu::KernelImage& image : gpu::kernel_images()) {
    const bool wanted = std::ranges::any_of(cards, [&](const lab::Card* card) {
      return std::ranges::any_of(card->kernels, [&](const lab::KernelLimits& limits) {
        return limits.covers(image.name);
      });
    });
    if (wanted || cards_named.empty()) {
      images.push_back(image);
    }
  }
  if (images.empty()) {
    throw Error(gpu::kernel_images().empty()
                    ? "this program was built without the CUDA compiler, so it has no kernels"
                    : "these cards have no kernels");
  }
  if (kernel.empty() && arch == 0) {
    return images;
  }
  std::vector<std::string> known;
  std::ranges::transform(images, std::back_inserter(known),
                         [](const gpu::KernelImage& image) { return std::string(image.name); });
  std::erase_if(images, [&](const gpu::KernelImage& image) {
    return (!kernel.empty() && image.name != kernel) || (arch != 0 && image.arch != arch);
  });
  if (images.empty()) {
    const std::string hint = io::did_you_mean(kernel, known);
    throw Error(fmt::format("these cards have no kernel {}{}{}", kernel,
                            arch == 0 ? "" : fmt::format(" for sm_{}", arch),
                            hint.empty() ? "; `fovea kernel resources` lists them" : hint));
  }
  return images;
}

std::string over_limits(const std::vector<std::string>& faults) {
  return faults.empty() ? "" : fmt::format("    OVER: {}\n", fmt::join(faults, "; "));
}

}  // namespace fovea::cli::kernel
