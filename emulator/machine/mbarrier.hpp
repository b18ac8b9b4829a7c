// mbarriers: objects in shared memory at which threads arrive and copies count their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/program/support.hpp"
#include "emulator/races/races.hpp"

namespace emu {

constexpr std::uint32_t kMbarrierBytes = 8;
constexpr std::uint32_t kMaxArrivals = (1U << 20U) - 1;
/// Mark of the bytes of an mbarrier, in the place of whether they were written: no load reads them.
constexpr std::uint8_t kMbarrierMark = 2;

class Mbarrier {
 public:
  explicit Mbarrier(std::uint32_t expected) : expected_(expected), pending_(expected) {}

  /// False: more come than the phase awaits, or can count. The phase ends when all have come.
  Support arrive(std::uint32_t count);
  Support expect_bytes(std::uint32_t bytes);
  Support complete_bytes(std::uint32_t bytes);

  /// Number of phases that have ended.
  [[nodiscard]] std::uint64_t phase() const { return phase_; }
  /// Whether the last phase that ended, or the one before the first, has this parity.
  [[nodiscard]] bool has_ended(std::uint32_t parity) const {
    return (phase_ + 1) % 2 == parity % 2;
  }
  [[nodiscard]] std::string text() const;

  races::MbarrierMeeting meeting{};
  std::vector<races::Access> others_arrivals{};  // the last of each warp of other blocks
  /// The last arrival for another block's tcgen05.commit, and the phase that it counts in, from 1.
  struct DistantCommit {
    races::Access access{};
    std::uint64_t phase = 0;  // 0: none
  };
  DistantCommit distant_commit{};
  std::uint64_t awaited = 0;  // phases for which some thread has waited

 private:
  Support count_bytes(std::int64_t bytes);
  void end_phase_if_complete();

  std::uint32_t expected_;
  std::uint32_t pending_;
  std::int64_t bytes_ = 0;  // that are expected and have not come
  std::uint64_t phase_ = 0;
};

}  // namespace emu
