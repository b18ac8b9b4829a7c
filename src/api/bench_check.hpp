// The checks of an encoder's output before the bench prints a figure.
#pragma once

#include <cstddef>
#include <span>

namespace fovea {

/// Throws fovea::Error unless all of `embeddings` [images, dimension], of images that all differ,
/// are finite and differ from the first.
void check_distinct(std::span<const float> embeddings, std::size_t dimension);

/// Throws fovea::Error unless the first of `embeddings` are, within the accuracy of 16 bits, those
/// of `exact` [images, dimension], which fp32 computed from the same pixels. As many are compared
/// as both have.
void check_against_exact(std::span<const float> embeddings, std::span<const float> exact,
                         std::size_t dimension);

}  // namespace fovea
