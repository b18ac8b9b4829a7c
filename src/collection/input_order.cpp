// Reconstructs the order of the inputs between two states of a job by a search.
#include "collection/input_order.hpp"

#include <span>

#include "pipeline/fingerprint.hpp"

namespace fovea::collection {
namespace {

using Names = std::span<const std::string>;

// Finds an interleaving of row names and failed names that has a given hash.
class InterleavingSearch {
 public:
  InterleavingSearch(Names row_names, Names failed_names, std::uint64_t target_hash)
      : row_names_(row_names), failed_names_(failed_names), target_hash_(target_hash) {}

  /// Returns whether there is one. `initial`: the hash over the names before these.
  [[nodiscard]] bool run(pipeline::NameHash initial) {
    failure_flags_.clear();
    pipeline::NameHash hash = initial;
    std::size_t row = 0;
    std::size_t failure = 0;
    while (row < row_names_.size() || failure < failed_names_.size()) {
      const bool takes_failure = is_failure_next(row, failure);
      hash.add(takes_failure ? failed_names_[failure++] : row_names_[row++]);
      failure_flags_.push_back(takes_failure);
    }
    if (hash.value() == target_hash_) {
      return true;
    }
    failure_flags_.clear();
    constexpr std::size_t kMaxNames = 4096;  // limits the depth of the recursion
    return row_names_.size() + failed_names_.size() <= kMaxNames && search(initial, 0, 0);
  }
  [[nodiscard]] const std::vector<bool>& failure_flags() const { return failure_flags_; }

 private:
  // Returns whether byte-wise order, that of a folder, takes the failed input before the row.
  [[nodiscard]] bool is_failure_next(std::size_t row, std::size_t failure) const {
    return failure < failed_names_.size() &&
           (row == row_names_.size() || failed_names_[failure] < row_names_[row]);
  }

  bool search(pipeline::NameHash hash, std::size_t row, std::size_t failure) {
    constexpr std::uint64_t kMaxTries = 1'000'000;
    if (++tries_ > kMaxTries) {
      return false;
    }
    if (row == row_names_.size() && failure == failed_names_.size()) {
      return hash.value() == target_hash_;
    }
    const bool first_choice = is_failure_next(row, failure);
    for (const bool takes_failure : {first_choice, !first_choice}) {
      if (takes_failure ? failure == failed_names_.size() : row == row_names_.size()) {
        continue;
      }
      pipeline::NameHash next_hash = hash;
      next_hash.add(takes_failure ? failed_names_[failure] : row_names_[row]);
      failure_flags_.push_back(takes_failure);
      if (search(next_hash, row + (takes_failure ? 0 : 1), failure + (takes_failure ? 1 : 0))) {
        return true;
      }
      failure_flags_.pop_back();
    }
    return false;
  }

  Names row_names_;
  Names failed_names_;
  std::uint64_t target_hash_;
  std::uint64_t tries_ = 0;
  std::vector<bool> failure_flags_;
};

}  // namespace

std::optional<std::vector<bool>> input_order(
    const std::vector<OrderState>& states,
    const std::function<std::string(std::uint64_t)>& row_name,
    const std::function<std::string(std::uint64_t)>& failed_name) {
  std::vector<bool> order;
  OrderState previous{.names = pipeline::NameHash().value()};
  for (const OrderState& state : states) {
    if (state.rows < previous.rows || state.failed < previous.failed) {
      return std::nullopt;
    }
    std::vector<std::string> row_names;
    for (std::uint64_t row = previous.rows; row < state.rows; ++row) {
      row_names.push_back(row_name(row));
    }
    std::vector<std::string> failed_names;
    for (std::uint64_t number = previous.failed; number < state.failed; ++number) {
      failed_names.push_back(failed_name(number));
    }
    InterleavingSearch search(row_names, failed_names, state.names);
    if (!search.run(pipeline::NameHash(previous.names))) {
      return std::nullopt;
    }
    order.insert(order.end(), search.failure_flags().begin(), search.failure_flags().end());
    previous = state;
  }
  return order;
}

}  // namespace fovea::collection
