// Reconstructs the input order of a job from its rows and its failed inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fovea::collection {

/// The state of a job in checksums.jsonl after some of its inputs.
struct OrderState {
  std::uint64_t names = 0;  // NameHash over the names of all inputs so far
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;
};

/// Returns for each input, in order, whether it failed. Rows and failed inputs are each in input
/// order, but an output does not record how they interleave. The search compares interleavings with
/// the hash of the names: first byte-wise order, as in a folder, then others, up to a limit.
/// `row_name`, `failed_name`: called with 0, 1, 2, ... in turn. Nothing when none has the hash.
[[nodiscard]] std::optional<std::vector<bool>> input_order(
    const std::vector<OrderState>& states,
    const std::function<std::string(std::uint64_t)>& row_name,
    const std::function<std::string(std::uint64_t)>& failed_name);

}  // namespace fovea::collection
