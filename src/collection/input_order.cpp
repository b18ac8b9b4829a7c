// Finds the input order between two states of a job by search.
#include "collection/input_order.hpp"

#include <span>

#include "pipeline/fingerprint.hpp"

namespace fovea::collection {
namespace {

using Names = std::span<const std::string>;

// Finds an interleaving of two sequences of names whose hash is `wanted`.
class Mix {
 public:
  Mix(Names rows, Names failed, std::uint64_t wanted)
      : rows_(rows), failed_(failed), wanted_(wanted) {}

  [[nodiscard]] bool find(pipeline::NameHash before) {
    is_failed_.clear();
    pipeline::NameHash hash = before;
    std::size_t row = 0;
    std::size_t failed = 0;
    while (row < rows_.size() || failed < failed_.size()) {
      const bool takes_failed = is_failed_next(row, failed);
      hash.add(takes_failed ? failed_[failed++] : rows_[row++]);
      is_failed_.push_back(takes_failed);
    }
    constexpr std::size_t kMaxNames = 4096;  // each takes a call on the stack
    if (hash.value() == wanted_) {
      return true;
    }
    is_failed_.clear();
    return rows_.size() + failed_.size() <= kMaxNames && search(before, 0, 0);
  }
  [[nodiscard]] const std::vector<bool>& is_failed() const { return is_failed_; }

 private:
  // Whether the failed input comes first in the order of a folder.
  [[nodiscard]] bool is_failed_next(std::size_t row, std::size_t failed) const {
    return failed < failed_.size() && (row == rows_.size() || failed_[failed] < rows_[row]);
  }

  bool search(pipeline::NameHash hash, std::size_t row, std::size_t failed) {
    constexpr std::uint64_t kMaxTries = 1'000'000;
    if (++tries_ > kMaxTries) {
      return false;
    }
    if (row == rows_.size() && failed == failed_.size()) {
      return hash.value() == wanted_;
    }
    const bool likely = is_failed_next(row, failed);
    for (const bool takes_failed : {likely, !likely}) {
      if (takes_failed ? failed == failed_.size() : row == rows_.size()) {
        continue;
      }
      pipeline::NameHash next = hash;
      next.add(takes_failed ? failed_[failed] : rows_[row]);
      is_failed_.push_back(takes_failed);
      if (search(next, row + (takes_failed ? 0 : 1), failed + (takes_failed ? 1 : 0))) {
        return true;
      }
      is_failed_.pop_back();
    }
    return false;
  }

  Names rows_;
  Names failed_;
  std::uint64_t wanted_;
  std::uint64_t tries_ = 0;
  std::vector<bool> is_failed_;
};

}  // namespace

std::optional<std::vector<bool>> input_order(
    const std::vector<OrderState>& states,
    const std::function<std::string(std::uint64_t)>& row_name,
    const std::function<std::string(std::uint64_t)>& failed_name) {
  std::vector<bool> order;
  OrderState before{.names = pipeline::NameHash().value()};
  for (const OrderState& state : states) {
    if (state.rows < before.rows || state.failed < before.failed) {
      return std::nullopt;
    }
    std::vector<std::string> rows;
    for (std::uint64_t row = before.rows; row < state.rows; ++row) {
      rows.push_back(row_name(row));
    }
    std::vector<std::string> failed;
    for (std::uint64_t number = before.failed; number < state.failed; ++number) {
      failed.push_back(failed_name(number));
    }
    Mix mix(rows, failed, state.names);
    if (!mix.find(pipeline::NameHash(before.names))) {
      return std::nullopt;
    }
    order.insert(order.end(), mix.is_failed().begin(), mix.is_failed().end());
    before = state;
  }
  return order;
}

}  // namespace fovea::collection
