// Reconstructs the input order of a job from its rows and its failed inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fovea::collection {

/// A state of a job, as checksums.jsonl records it: the counts over its inputs so far.
struct OrderState {
  std::uint64_t names = 0;  // NameHash over the names of the inputs
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;
};

/// Returns for each input, in order, whether it failed. Rows and failed inputs are each in input
/// order, but an output does not record how they interleave. The search compares the hashes of
/// interleavings with those in `states`: first of the byte-wise order, as in a folder, then of
/// others, up to a limit. Returns nullopt when no interleaving matches. `row_name` and
/// `failed_name` return the names of the row and of the failed input with a number; they are called
/// with 0, 1, 2, ...
[[nodiscard]] std::optional<std::vector<bool>> input_order(
    const std::vector<OrderState>& states,
    const std::function<std::string(std::uint64_t)>& row_name,
    const std::function<std::string(std::uint64_t)>& failed_name);

}  // namespace fovea::collection
