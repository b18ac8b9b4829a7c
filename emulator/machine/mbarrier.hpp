// mbarriers: objects in shared memory that count arrivals of threads and bytes of copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/program/check_result.hpp"
#include "emulator/program/lanes.hpp"
#include "emulator/races/races.hpp"

namespace emu {

class Warp;
struct Op;

constexpr std::uint32_t kMbarrierBytes = 8;
constexpr std::uint32_t kMaxArrivals = (1U << 20U) - 1;
/// Value in Block::is_shared_written for the bytes of an mbarrier, which loads must not read.
constexpr std::uint8_t kMbarrierMark = 2;

class Mbarrier {
 public:
  explicit Mbarrier(std::uint32_t expected) : expected_(expected), pending_(expected) {}

  /// Counts arrivals; refuses a count of 0 or one that exceeds the awaited arrivals. The phase
  /// completes when all arrivals and bytes have arrived.
  CheckResult arrive(std::uint32_t count);
  /// Removes arrivals from all phases from the current one on, and counts them in this one.
  CheckResult drop(std::uint32_t count);
  /// Awaits an arrival more in the current phase alone.
  CheckResult add_arrival();
  /// Whether so many arrivals would end the phase, bytes aside.
  [[nodiscard]] bool would_complete(std::uint32_t count) const { return count >= pending_; }
  CheckResult expect_bytes(std::uint32_t bytes);
  CheckResult complete_bytes(std::uint32_t bytes);
  /// Records a copy that counts so many bytes here. They must all come in the phase in which it is
  /// issued: whether the next one awaits them nobody can know.
  void begin_copy(std::size_t bytes) { bytes_on_the_way_ += static_cast<std::int64_t>(bytes); }
  /// Counts bytes of a copy that has begun.
  CheckResult complete_copy(std::uint32_t bytes) {
    bytes_on_the_way_ -= bytes;
    return complete_bytes(bytes);
  }
  [[nodiscard]] bool has_copies() const { return bytes_on_the_way_ > 0; }
  /// Refuses the end of the mbarrier's use while copies are on the way, or when more bytes have
  /// come than were expected.
  [[nodiscard]] CheckResult check_end() const;

  /// Phase and awaited arrivals in one number, as arrivals return it.
  [[nodiscard]] std::uint64_t state() const { return phase_ << kPendingBits | pending_; }
  static std::uint64_t phase_of(std::uint64_t state) { return state >> kPendingBits; }
  static std::uint32_t pending_of(std::uint64_t state) {
    return static_cast<std::uint32_t>(state & ((1U << kPendingBits) - 1));
  }
  /// Number of completed phases.
  [[nodiscard]] std::uint64_t phase() const { return phase_; }
  /// Whether the most recently completed phase has this parity; before the first phase completes,
  /// the parity 1 counts as completed.
  [[nodiscard]] bool has_ended(std::uint32_t parity) const {
    return (phase_ + 1) % 2 == parity % 2;
  }
  [[nodiscard]] std::string text() const;

  races::MbarrierSync sync{};
  std::vector<races::Access> remote_arrivals{};  // last arrival of each warp of other blocks
  /// Last arrival by a tcgen05.commit of another block, and the phase it counts in, from 1.
  struct RemoteCommit {
    races::Access access{};
    std::uint64_t phase = 0;  // 0: none
  };
  RemoteCommit remote_commit{};
  /// The last operation that has counted bytes.
  struct Counter {
    Warp* warp = nullptr;
    const Op* op = nullptr;
    Lanes lanes = 0;
  };
  Counter counter{};
  std::uint64_t awaited_phases = 0;  // number of phases that some thread has waited for

 private:
  static constexpr unsigned kPendingBits = 20;

  CheckResult count_bytes(std::int64_t bytes);
  CheckResult end_phase_if_complete();

  std::uint32_t expected_;
  std::uint32_t pending_;
  std::int64_t bytes_ = 0;             // bytes that are expected and have not arrived
  std::int64_t bytes_on_the_way_ = 0;  // bytes of copies that have not arrived
  std::uint64_t phase_ = 0;
};

}  // namespace emu
