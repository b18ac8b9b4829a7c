// The order in which a job met its inputs, found from the rows and the failed inputs that it left.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fovea::collection {

/// What checksums.jsonl says of a job after some of its inputs.
struct OrderState {
  std::uint64_t names = 0;  // NameHash over the names of all inputs so far
  std::uint64_t rows = 0;
  std::uint64_t failed = 0;
};

/// Which inputs failed, in input order: rows and failed inputs each are in that order, but an
/// output does not say how they mix. The hash of the names does, when it is tried out: first as
/// names in byte-wise order are, as in a folder, and then in other ways, as far as there are not
/// too many. `row_name`, `failed_name`: called with 0, 1, 2, ... in turn. Nothing when no mix has
/// the hash.
[[nodiscard]] std::optional<std::vector<bool>> input_order(
    const std::vector<OrderState>& states,
    const std::function<std::string(std::uint64_t)>& row_name,
    const std::function<std::string(std::uint64_t)>& failed_name);

}  // namespace fovea::collection
