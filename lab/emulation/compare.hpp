// What a buffer holds in the end, beside what it should hold.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

/// The index of an element in its shape: "[0, 3]".
[[nodiscard]] std::string index_text(std::size_t index, const Shape& shape);

/// Compares a buffer with what it should hold. Exactly: bit by bit. With a tolerance: the
/// difference is at most `absolute` + `relative` times the wanted number's magnitude; infinities
/// are equal to themselves, and NaN is near NaN alone.
[[nodiscard]] std::optional<Mismatch> compare(const Buffer& buffer,
                                              std::span<const std::byte> bytes);

}  // namespace fovea::emulation
