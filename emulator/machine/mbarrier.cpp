// mbarriers: objects in shared memory that count arrivals of threads and bytes of copies.
#include "emulator/machine/mbarrier.hpp"

#include <fmt/format.h>

namespace emu {

CheckResult Mbarrier::arrive(std::uint32_t count) {
  if (count == 0 || count > pending_) {
    return {fmt::format("the arrival count is {}, but phase {} awaits only {} of {} arrivals",
                        count, phase_, pending_, expected_)};
  }
  pending_ -= count;
  return end_phase_if_complete();
}

CheckResult Mbarrier::drop(std::uint32_t count) {
  if (count > expected_) {
    return {fmt::format("{} arrivals are dropped, but a phase awaits only {}", count, expected_)};
  }
  expected_ -= count;
  return arrive(count);
}

CheckResult Mbarrier::add_arrival() {
  if (pending_ == kMaxArrivals) {
    return {fmt::format("the phase awaits more than {} arrivals", kMaxArrivals)};
  }
  ++pending_;
  return {};
}

CheckResult Mbarrier::expect_bytes(std::uint32_t bytes) {
  return count_bytes(bytes);
}

CheckResult Mbarrier::complete_bytes(std::uint32_t bytes) {
  return count_bytes(-static_cast<std::int64_t>(bytes)).and_then([&] {
    return end_phase_if_complete();
  });
}

CheckResult Mbarrier::count_bytes(std::int64_t bytes) {
  constexpr std::int64_t kMaxBytes = (1 << 20) - 1;
  bytes_ += bytes;
  if (bytes_ > kMaxBytes || bytes_ < -kMaxBytes) {
    return {fmt::format("the number of awaited bytes is {}, but its magnitude must be at most {}",
                        bytes_, kMaxBytes)};
  }
  return {};
}

CheckResult Mbarrier::end_phase_if_complete() {
  if (pending_ != 0 || bytes_ != 0) {
    return {};
  }
  if (bytes_on_the_way_ > 0) {
    return {
        fmt::format("phase {} of the mbarrier ends while {} bytes of copies that were issued in it "
                    "are still on "
                    "the way: it expects fewer bytes than they write",
                    phase_, bytes_on_the_way_)};
  }
  pending_ = expected_;
  ++phase_;
  sync.complete();
  return {};
}

CheckResult Mbarrier::check_end() const {
  return bytes_on_the_way_ > 0
             ? CheckResult{fmt::format("{} bytes of copies are still on the way to it",
                                       bytes_on_the_way_)}
         : bytes_ < 0 ? CheckResult{fmt::format(
                            "{} bytes more have come than were expected, and count in phase {}",
                            -bytes_, phase_)}
                      : CheckResult{};
}

std::string Mbarrier::text() const {
  return fmt::format("phase {}, {} of {} arrivals and {} bytes awaited", phase_, pending_,
                     expected_, bytes_);
}

}  // namespace emu
