// Happens-before order among the accesses of one warp while its lanes have diverged.
#pragma once

#include <cstdint>
#include <vector>

namespace emu::races {

/// Lanes that run together run in step: what they did comes before what they do. Lanes that have
/// parted come before or after each other only once they have met again. A fragment is a set of
/// lanes from where it came about to where it parts or meets others; 0 is the whole warp. Each
/// epoch of the warp belongs to one fragment.
class Fragments {
 public:
  using Id = std::uint32_t;

  /// Creates the fragment of a part of the lanes of `parent`.
  Id part(Id parent);
  /// Reconverges: the fragment, which came of `into`, is a part of it again.
  void join(Id fragment, Id into);
  /// Notes that the fragment runs from this epoch on.
  void run(Id fragment, std::uint32_t epoch);

  [[nodiscard]] Id current() const { return current_; }
  /// Whether what the warp did in that epoch comes before what the current fragment does.
  [[nodiscard]] bool is_before(std::uint32_t epoch) const;

 private:
  struct Node {
    Id parent = 0;
    Id joined = 0;  // what it is a part of since; itself at first
    Id since = 0;   // the first fragment that has come about after that
  };
  struct Turn {
    std::uint32_t epoch = 0;
    Id fragment = 0;
  };

  Id current_ = 0;
  std::vector<Node> nodes_{Node{}};
  std::vector<Turn> turns_{};  // by epoch; before the first, the warp was whole
};

}  // namespace emu::races
