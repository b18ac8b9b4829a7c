// Happens-before order among the accesses of one warp while its lanes have diverged.
#pragma once

#include <cstdint>
#include <vector>

namespace emu::races {

/// Fragments of a warp. Lanes that run together run in step: their earlier operations happen before
/// their later ones. Diverged lanes are ordered only after they have reconverged. A fragment is a
/// set of lanes from their divergence to the next divergence or reconvergence; fragment 0 is the
/// whole warp. Each epoch of the warp belongs to one fragment.
class Fragments {
 public:
  using Id = std::uint32_t;

  /// Creates a fragment for some of the lanes of `parent`.
  Id create(Id parent);
  /// Joins the fragment to its ancestor `into` when its lanes reconverge.
  void join(Id fragment, Id into);
  /// Records that the fragment runs from this epoch on.
  void run(Id fragment, std::uint32_t epoch);

  /// Records that all lanes of the warp have met, so that its operations before this epoch happen
  /// before those of every fragment.
  void meet(std::uint32_t epoch);

  [[nodiscard]] Id current() const { return current_; }
  /// Whether the warp's operations in that epoch happen before those of the current fragment.
  [[nodiscard]] bool is_before(std::uint32_t epoch) const;

 private:
  struct Node {
    Id parent = 0;
    Id joined_fragment = 0;  // fragment that it has joined; itself at first
    Id first_later = 0;      // first fragment created after the join
  };
  struct Turn {
    std::uint32_t epoch = 0;
    Id fragment = 0;
  };

  Id current_ = 0;
  std::vector<Node> nodes_{Node{}};
  std::vector<Turn> turns_{};  // sorted by epoch; before the first one, the warp was whole
};

}  // namespace emu::races
