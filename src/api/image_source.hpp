// Images in memory as the source of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fovea/images.hpp"
#include "pipeline/loader.hpp"
#include "pipeline/source.hpp"

namespace fovea {

/// `images` must outlive it.
[[nodiscard]] std::unique_ptr<pipeline::Source> image_source(std::span<const ImageInput> images);

/// Returns the options for `images`, which must not be empty: few images need few workers and
/// little memory.
[[nodiscard]] pipeline::LoaderOptions loader_for(std::size_t images, std::size_t batch_size,
                                                 int decode_threads, std::uint64_t decode_memory,
                                                 std::int64_t max_pixels);

}  // namespace fovea
