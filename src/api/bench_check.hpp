// Checks an encoder's output before the benchmark prints its throughput.
#pragma once

#include <cstddef>
#include <span>

namespace fovea {

/// Throws fovea::Error unless all of `embeddings` [images, dimension] are finite and all differ
/// from the first. The images must differ from each other.
void check_distinct(std::span<const float> embeddings, std::size_t dimension);

/// Throws fovea::Error unless `embeddings` equal `exact` [images, dimension], computed in fp32 from
/// the same pixels, within the accuracy of 16-bit types. If one has more rows, the others are
/// ignored.
void check_against_exact(std::span<const float> embeddings, std::span<const float> exact,
                         std::size_t dimension);

}  // namespace fovea
