// Compares embeddings of random pixels with those of fp32.
#include "api/bench_check.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "core/error.hpp"

namespace fovea {
namespace {

// bf16 on a CPU reaches cosines of at least 0.99997 with random pixels and random weights (tiny,
// base-patch16-224, large-patch16-512).
constexpr double kMinCosine = 0.99;
// The cosine alone would accept the embedding of another image, because embeddings of random pixels
// are similar (cosines of up to 0.9995). So the difference of two embeddings is compared as well;
// its cosine to that in fp32 is 0.988, 0.9996 and 0.9998 for these models. It would be -1 if the
// two were swapped, and around 0 if they did not depend on the pixels.
constexpr double kMinCosineOfDifference = 0.5;

double cosine(std::span<const float> a, std::span<const float> b) {
  const auto dot = [](std::span<const float> x, std::span<const float> y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

}  // namespace

void check_distinct(std::span<const float> embeddings, std::size_t dimension) {
  for (const float value : embeddings) {
    if (!std::isfinite(value)) {
      fail("bench: the encoder returned a value that is not finite");
    }
  }
  for (std::size_t image = 1; image < embeddings.size() / dimension; ++image) {
    const auto row = embeddings.subspan(image * dimension, dimension);
    if (std::ranges::equal(row, embeddings.first(dimension))) {
      fail("bench: images 0 and {} differ but their embeddings do not", image);
    }
  }
}

void check_against_exact(std::span<const float> embeddings, std::span<const float> exact,
                         std::size_t dimension) {
  const std::size_t images = std::min(embeddings.size(), exact.size()) / dimension;
  const auto difference = [&](std::span<const float> rows, std::size_t image) {
    std::vector<float> values(dimension);
    std::ranges::transform(rows.subspan(image * dimension, dimension), rows.first(dimension),
                           values.begin(), std::minus<>());
    return values;
  };
  for (std::size_t image = 0; image < images; ++image) {
    const double similarity = cosine(embeddings.subspan(image * dimension, dimension),
                                     exact.subspan(image * dimension, dimension));
    if (!(similarity >= kMinCosine)) {
      fail(
          "bench: the embedding of image {} has a cosine of {:.4f} to that in fp32; expected at "
          "least {}",
          image, similarity, kMinCosine);
    }
    if (image == 0) {
      continue;
    }
    const double difference_cosine =
        cosine(difference(embeddings, image), difference(exact, image));
    if (!(difference_cosine >= kMinCosineOfDifference)) {
      fail(
          "bench: the difference of images 0 and {} has a cosine of {:.4f} to that in fp32; "
          "expected at least {}",
          image, difference_cosine, kMinCosineOfDifference);
    }
  }
}

}  // namespace fovea
