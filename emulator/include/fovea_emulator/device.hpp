// A GPU in software: it runs the PTX of kernels on the CPU and tells what is wrong with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea_emulator/finding.hpp"
#include "fovea_emulator/trace.hpp"

namespace [[gnu::visibility("default")]] emu {

struct LaunchConfig {
  std::array<std::uint32_t, 3> grid = {1, 1, 1};     // blocks
  std::array<std::uint32_t, 3> block = {1, 1, 1};    // threads
  std::array<std::uint32_t, 3> cluster = {1, 1, 1};  // blocks; divides the grid
  std::size_t dynamic_shared_bytes = 0;
  /// The grid may start when each block of the one before it in the same run has ended or executed
  /// griddepcontrol.launch_dependents.
  bool is_dependent = false;
};

struct RunOptions {
  std::uint64_t seed = 0;  // of the schedule: the same seed runs the same way
  Policy policy = Policy::kFromSeed;
  /// Blocks of a grid that run at a time; a cluster runs whole.
  std::uint32_t resident_blocks = 4;
  /// Whether to look for accesses of which nothing says which is first.
  bool check_races = true;
  /// Whether a box with a swizzle must begin in shared memory where the swizzle's pattern does: at
  /// a multiple of 256, 512 or 1024 bytes. Hardware asks for multiples of 128 alone and swizzles by
  /// the address, so that code which counts rows from where the box begins looks in other places;
  /// without this the same happens here, and nothing is said.
  bool check_swizzle_starts = true;
  /// Whether a block must have waited until its bulk stores have read its shared memory before it
  /// ends. Without this the memory stays as long as they need it.
  bool check_last_stores = true;
  /// Whether what has ended in tensor memory must be told to other threads through
  /// tcgen05.fence::before_thread_sync and ::after_thread_sync, beside what synchronises them.
  bool check_tensor_fences = true;
  /// Whether a warp that can go on may be kept for any time while others go on, so that phases of
  /// an mbarrier may come and go before it looks. Without this all that can go on run in turns, in
  /// one order, each until it has to wait, and what goes on beside them goes on between the turns.
  bool check_late_warps = true;
  /// Whether a tcgen05.commit may arrive at mbarriers of other blocks than its thread's later than
  /// what is behind it in the order of issue. Without this all arrive in that order.
  bool check_late_commits = true;
  /// Whether what is stored to global memory must have been written. Without this such bytes count
  /// as not written from then on, and only what they decide is a finding.
  bool check_stored_values = false;
  /// The run ends with a finding after as many operations of warps. 0: no limit.
  std::uint64_t most_steps = 0;
  /// Is told what runs; none: nobody is.
  TraceFunction trace{};
};

/// Where a parameter lies among a kernel's parameters.
struct Parameter {
  std::string name{};
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// A kernel of a loaded module, as long as the device or a copy of it lives.
struct KernelHandle {
  std::string name{};
  const void* program = nullptr;
  std::vector<Parameter> parameters{};
};

struct Launch {
  KernelHandle kernel{};
  LaunchConfig config{};
  std::vector<std::byte> parameters{};  // as they lie in the kernel's parameter space
};

/// Memory and modules of one emulated GPU. For one thread at a time. Addresses are the device's
/// own, not the host's.
class Device {
 public:
  Device();
  ~Device();
  /// Copies its memory as it is now, at the same addresses, and its modules: what runs on the copy
  /// does not show on the other, and both know the kernels' handles. Copies may be made of one
  /// device by several threads.
  Device(const Device& other);
  Device& operator=(const Device&) = delete;

  /// Memory, uninitialised, 256-byte aligned, with a gap on both sides that no access may touch.
  std::uint64_t allocate(std::size_t bytes);
  /// Throws Error for what was not allocated.
  void free(std::uint64_t address);
  /// Throw Error outside of what was allocated.
  void write(std::uint64_t address, std::span<const std::byte> bytes);
  void read(std::span<std::byte> bytes, std::uint64_t address) const;

  /// The kernels in the PTX, in its order. Throws Error for what the emulator does not know, with
  /// the line; TooLarge where the module takes more memory than `most_bytes`.
  std::vector<KernelHandle> load(std::string_view ptx,
                                 std::size_t most_bytes = std::size_t{4} << 30U);

  /// What its memory and its modules take of the host's memory, and what a run of these on a copy
  /// of it takes; roughly, without what the search of races keeps of global memory.
  [[nodiscard]] std::size_t host_bytes() const;
  [[nodiscard]] std::size_t host_bytes_of_run(std::span<const Launch> launches,
                                              const RunOptions& options) const;

  /// Runs grids one after the other, those that are dependent overlapping the one before, to the
  /// end or to the first finding. Throws Error when a launch itself is not allowed: too many
  /// threads, too few parameter bytes.
  Report run(std::span<const Launch> launches, const RunOptions& options = {});
  /// Runs one grid.
  Report launch(const KernelHandle& kernel, const LaunchConfig& config,
                std::span<const std::byte> parameters, const RunOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace emu
