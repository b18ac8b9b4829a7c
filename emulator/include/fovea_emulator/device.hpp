// A GPU in software: runs the PTX of kernels on the CPU and reports errors in them.
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
  std::array<std::uint32_t, 3> grid = {1, 1, 1};     // in blocks
  std::array<std::uint32_t, 3> block = {1, 1, 1};    // in threads
  std::array<std::uint32_t, 3> cluster = {1, 1, 1};  // in blocks; must divide the grid
  std::size_t dynamic_shared_bytes = 0;
  /// Programmatic dependent launch: the grid may start when each block of the previous grid of the
  /// run has ended or has executed griddepcontrol.launch_dependents.
  bool is_dependent = false;
  /// Cooperative launch: all blocks run concurrently, so that they may wait for each other.
  bool is_cooperative = false;
};

struct RunOptions {
  std::uint64_t seed = 0;  // seed of the schedule: the same seed gives the same run
  Policy policy = Policy::kFromSeed;
  /// Maximum number of blocks of a grid that run concurrently; all blocks of a cluster run
  /// concurrently.
  std::uint32_t resident_blocks = 4;
  /// Whether to detect races: conflicting accesses that no synchronisation orders.
  bool check_races = true;
  /// Whether to report a box with a swizzle that does not begin where the swizzle's pattern does,
  /// at a multiple of 256, 512 or 1024 bytes in shared memory. Hardware requires multiples of 128
  /// only and swizzles by the address, so that code which counts rows from the beginning of the box
  /// reads other bytes than it expects. Without this check the emulator does the same silently.
  bool check_swizzle_starts = true;
  /// Whether to report a block that ends before its bulk stores have read its shared memory.
  /// Without this check the memory lives as long as the stores need it.
  bool check_last_stores = true;
  /// Whether to require tcgen05.fence::before_thread_sync and ::after_thread_sync around the
  /// synchronisation of threads that access the same tensor memory.
  bool check_tensor_fences = true;
  /// Whether a warp that is ready may be delayed while others run, so that phases of an mbarrier
  /// may pass before the warp tests them. Without this all ready warps run round robin in a fixed
  /// order, each until it has to wait, and asynchronous work runs between the rounds.
  bool check_late_warps = true;
  /// Whether the arrivals of a tcgen05.commit at mbarriers of other blocks may be delayed past
  /// later instructions of the same thread. Without this all arrive in the order of issue.
  bool check_late_commits = true;
  /// Whether to report stores of uninitialised values to global memory. Without this check the
  /// stored bytes count as uninitialised, and only their use in an address or a decision is a
  /// finding.
  bool check_stored_values = false;
  /// Whether to require fence.mbarrier_init between the initialisation of an mbarrier and its use
  /// by the TMA or by other blocks. Without this check each initialisation counts as fenced.
  bool check_init_fences = true;
  /// Whether a block's end must be ordered after accesses to its shared memory by more than
  /// barrier.cluster.arrive.relaxed. Without this check a relaxed arrival is sufficient for that.
  bool check_relaxed_ends = true;
  /// Whether to require a wgmma.fence between a constant's move to an accumulator and the product.
  bool check_zeroed_accumulators = true;
  /// Whether to require tcgen05.wait::ld before the registers of a tcgen05.ld are used. Without
  /// this check their first use waits for that load.
  bool check_tensor_waits = true;
  /// Whether weak stores race that are not ordered and store the same value. Without this check
  /// only other accesses race with them, and stores of other values.
  bool check_same_stores = true;
  /// Maximum number of findings. The run goes on behind a finding for which can_go_on_behind, until
  /// there are as many; findings of one kind at the same lines count as one.
  std::size_t max_findings = 1;
  /// Findings to leave out. The run ends at those behind which it cannot go on, nevertheless.
  std::vector<IgnoredFinding> ignored{};
  /// Maximum number of operations that the warps execute before the run ends with a finding. 0: no
  /// limit.
  std::uint64_t max_steps = 0;
  /// Callback for each traced event; empty: no trace.
  TraceFunction trace{};

  /// Turns off the checks for what hardware is known to run although no manual allows it.
  void let_hardware_customs_pass();
};

/// Checks for what hardware is known to run: RunOptions::let_hardware_customs_pass turns them off.
inline constexpr std::array kHardwareCustoms = {
    &RunOptions::check_swizzle_starts,      &RunOptions::check_last_stores,
    &RunOptions::check_tensor_fences,       &RunOptions::check_late_warps,
    &RunOptions::check_late_commits,        &RunOptions::check_stored_values,
    &RunOptions::check_init_fences,         &RunOptions::check_relaxed_ends,
    &RunOptions::check_zeroed_accumulators, &RunOptions::check_tensor_waits,
    &RunOptions::check_same_stores,
};

/// A parameter, with its place in a kernel's parameter space.
struct Parameter {
  std::string name{};
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  std::string type{};       // of an element: "u64"
  bool is_array = false;    // of elements, as structs are passed
  bool is_pointer = false;  // the PTX says so (.ptr)
};

/// A kernel of a loaded module. Valid as long as the device or a copy of it lives.
struct KernelHandle {
  std::string name{};
  const void* program = nullptr;
  std::vector<Parameter> parameters{};
  std::array<std::uint32_t, 3> required_threads{};  // .reqntid; zeros: not given
  std::array<std::uint32_t, 3> required_cluster{};  // .reqnctapercluster; zeros: not given
  std::uint64_t max_threads = 0;                    // per block (.maxntid); 0: not given
};

/// A global or constant variable of a loaded module.
struct VariableHandle {
  std::string name{};
  std::uint64_t address = 0;
  std::size_t bytes = 0;
};

struct ModuleHandle {
  std::vector<KernelHandle> kernels{};
  std::vector<VariableHandle> variables{};
};

/// Resources of a kernel, and what it requires of its launch.
struct KernelInfo {
  std::size_t static_shared_bytes = 0;
  std::size_t local_bytes = 0;      // per thread
  std::uint32_t max_threads = 0;    // per block, as .maxntid or .reqntid have it; 0: not given
  std::uint32_t max_registers = 0;  // per thread; 0: not given
  std::array<std::uint32_t, 3> cluster{};  // .reqnctapercluster; zeros: not given
  std::string target{};                    // of its module: "sm_90a"
};

/// When the kernels of a module are decoded.
enum class Decode : std::uint8_t { kAtOnce, kAtLaunch };

struct Launch {
  KernelHandle kernel{};
  LaunchConfig config{};
  std::vector<std::byte> parameters{};  // in the layout of the kernel's parameter space
};

/// Memory and modules of one emulated GPU. Not thread-safe. Addresses are those of the emulated
/// device, not of the host.
class Device {
 public:
  Device();
  ~Device();
  /// Copies the memory as it is now, at the same addresses, and the modules. Later changes to one
  /// device do not affect the other; kernel handles are valid on both. Several threads may copy one
  /// device concurrently.
  Device(const Device& other);
  Device& operator=(const Device&) = delete;

  /// Allocates uninitialised memory, aligned to 256 bytes, with inaccessible gaps on both sides.
  std::uint64_t allocate(std::size_t bytes);
  /// Allocates uninitialised memory at this address, such as that of host memory of which it is the
  /// device's copy. Throws Error if other memory is there.
  void allocate_at(std::uint64_t address, std::size_t bytes);
  /// Throws Error if the address was not allocated.
  void free(std::uint64_t address);
  /// Throw Error if the bytes are not all allocated.
  void write(std::uint64_t address, std::span<const std::byte> bytes);
  void read(std::span<std::byte> bytes, std::uint64_t address) const;
  /// Copies bytes that may overlap; bytes without a value stay so. Throws Error as write() does.
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes);
  /// Returns the memory itself, valid until it is freed. Throws Error as read() does.
  [[nodiscard]] std::span<const std::byte> view(std::uint64_t address, std::size_t bytes) const;

  /// Loads the kernels of a PTX module, in the order of the text. Throws Error, with the line, for
  /// PTX that is not supported; throws TooLarge if the module takes more memory than `max_bytes`.
  /// Kernels that are decoded at their launch are refused alone, and count as memory only then.
  std::vector<KernelHandle> load(std::string_view ptx,
                                 std::size_t max_bytes = std::size_t{4} << 30U,
                                 Decode when = Decode::kAtOnce);
  /// Does the same, and returns the module's variables as well.
  ModuleHandle load_module(std::string_view ptx, std::size_t max_bytes = std::size_t{4} << 30U,
                           Decode when = Decode::kAtOnce);
  /// Throws as decode() does.
  [[nodiscard]] KernelInfo info(const KernelHandle& kernel) const;
  /// Decodes a kernel, unless it is decoded already. Throws as load() does.
  void decode(const KernelHandle& kernel) const;

  /// Returns the configuration of a launch with the grid in blocks. A launch of a kernel whose
  /// blocks are clusters (.blocksareclusters) counts clusters, and need not repeat the sizes that
  /// the kernel has. Throws Error for such a kernel without sizes.
  [[nodiscard]] static LaunchConfig config_in_blocks(const Launch& launch);

  /// Estimates the host memory that the device's memory and modules take, and that the launches
  /// take when they run on a copy of it, without the race detector's records of global memory.
  [[nodiscard]] std::size_t host_bytes() const;
  [[nodiscard]] std::size_t host_bytes_of_run(std::span<const Launch> launches,
                                              const RunOptions& options) const;

  /// Runs grids one after the other, except that a dependent grid overlaps the previous one, to the
  /// end or to the first finding. Throws Error for an invalid launch, such as one
  /// with too many threads or too few parameter bytes.
  Report run(std::span<const Launch> launches, const RunOptions& options = {});
  /// Runs one grid.
  Report launch(const KernelHandle& kernel, const LaunchConfig& config,
                std::span<const std::byte> parameters, const RunOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace emu
