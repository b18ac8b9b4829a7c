// Emulated GPU: its memory, modules and launches.
#include "fovea_emulator/device.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/finding_log.hpp"
#include "emulator/machine/global_memory.hpp"
#include "emulator/machine/scheduler.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/program/address_space.hpp"
#include "emulator/program/program.hpp"
#include "emulator/syntax/limits.hpp"
#include "emulator/syntax/module.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

constexpr std::array<std::uint32_t, 3> kMaxBlocks = {(1U << 31U) - 1, 65535, 65535};
constexpr std::uint32_t kMaxThreads = 1024;
constexpr std::uint32_t kMaxClusterBlocks = 8;

struct LoadedModule;

// A kernel, which is decoded when it is first needed. Copies of a device share it.
struct LoadedKernel {
  const LoadedModule* module = nullptr;
  const syntax::Function* function = nullptr;
  mutable std::mutex mutex{};
  mutable std::unique_ptr<const Program> program{};
};

struct LoadedModule {
  explicit LoadedModule(std::string_view ptx, std::size_t max_bytes)
      : text(ptx), memory(max_bytes) {
    memory.add(text.size(), 1);
    module = syntax::parse(text, memory);
  }

  std::string text;
  mutable std::mutex memory_mutex{};
  mutable syntax::MemoryCharge memory;
  syntax::Module module{};
  GlobalAddresses addresses{};
  std::deque<LoadedKernel> kernels{};
};

const LoadedKernel& loaded(const KernelHandle& kernel) {
  return *static_cast<const LoadedKernel*>(kernel.program);
}

// Returns the kernel's program. Throws Error, with the line, if the kernel is not supported.
const Program& program_of(const KernelHandle& handle) {
  const LoadedKernel& kernel = loaded(handle);
  const std::scoped_lock lock(kernel.mutex);
  if (kernel.program == nullptr) {
    const LoadedModule& module = *kernel.module;
    const std::scoped_lock memory_lock(module.memory_mutex);
    const std::size_t before = module.memory.bytes();
    try {
      kernel.program = std::make_unique<const Program>(decode(
          module.module, *kernel.function, module.addresses, &find_operation, module.memory));
    } catch (...) {
      module.memory.return_to(before);
      throw;
    }
  }
  return *kernel.program;
}

// Returns the product of three sizes, saturated at the largest 64-bit number.
std::uint64_t product(const std::array<std::uint32_t, 3>& sizes) {
  const std::uint64_t area = std::uint64_t{sizes[0]} * sizes[1];
  const bool is_too_large = sizes[2] != 0 && area > UINT64_MAX / sizes[2];
  return is_too_large ? UINT64_MAX : area * sizes[2];
}

// Returns the largest register count of the kernel's setmaxnreg.inc instructions; 0 without any.
std::uint32_t max_requested_registers(const syntax::Function& function) {
  std::uint32_t maximum = 0;
  for (const syntax::Instruction& instruction : function.instructions) {
    if (instruction.opcode.starts_with("setmaxnreg.inc") && !instruction.operands.empty()) {
      maximum = std::max(maximum, static_cast<std::uint32_t>(instruction.operands.front().bits));
    }
  }
  return maximum;
}

// Estimates the registers per thread that ptxas allots to a kernel with setmaxnreg: an equal share
// of a multiprocessor's registers, at most the largest count in the kernel (as ptxas -v of CUDA
// 13.0 reports). A thread uses at most 255, but registers are allotted in units of 8.
std::uint32_t registers_per_thread(const syntax::Function& function, std::uint64_t threads) {
  constexpr std::uint32_t kRegisters = 65536;
  const std::uint32_t requested = max_requested_registers(function);
  constexpr std::uint32_t kUnit = 8;
  constexpr std::uint32_t kMost = 256;
  const std::uint32_t maximum = requested != 0 ? std::min(requested, kMost) : kMost;
  const std::uint64_t blocks = std::max(function.min_blocks, 1U);
  const std::uint32_t equal_share =
      static_cast<std::uint32_t>(kRegisters / (threads * blocks)) / kUnit * kUnit;
  const std::uint32_t declared =
      (static_cast<std::uint32_t>(function.max_registers) + kUnit - 1) / kUnit * kUnit;
  return std::min(declared != 0 ? declared : maximum, std::min(equal_share, maximum));
}

void check_size_limit(const syntax::Function& function, std::string_view name,
                      const std::array<std::uint32_t, 3>& sizes,
                      const std::array<std::uint32_t, 3>& maximum) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes.at(i) > maximum.at(i)) {
      throw Error(fmt::format("{}: the {} must be at most {}, got {}", function.name, name,
                              fmt::join(maximum, "x"), fmt::join(sizes, "x")));
    }
  }
}

}  // namespace

LaunchConfig Device::config_in_blocks(const Launch& launch) {
  constexpr std::array<std::uint32_t, 3> kNotGiven = {1, 1, 1};
  const syntax::Function& function = *program_of(launch.kernel).function;
  LaunchConfig config = launch.config;
  if (!function.blocks_are_clusters) {
    return config;
  }
  if (product(function.required_threads) == 0 || product(function.required_cluster) == 0) {
    throw Error(fmt::format("{}: .blocksareclusters without .reqntid and .reqnctapercluster",
                            function.name));
  }
  if (config.block == kNotGiven) {
    config.block = function.required_threads;
  }
  if (config.cluster == kNotGiven) {
    config.cluster = function.required_cluster;
  }
  for (std::size_t i = 0; i < config.grid.size(); ++i) {
    const std::uint64_t blocks = std::uint64_t{config.grid.at(i)} * function.required_cluster.at(i);
    config.grid.at(i) = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(blocks, std::numeric_limits<std::uint32_t>::max()));
  }
  return config;
}

namespace {

void check_launch(const Launch& launch, const LaunchConfig& config) {
  const Program& program = program_of(launch.kernel);
  const syntax::Function& function = *program.function;
  const std::uint64_t threads = product(config.block);
  const std::uint64_t max_threads = product(function.max_threads);
  if (threads == 0 || threads > kMaxThreads || (max_threads != 0 && threads > max_threads)) {
    throw Error(fmt::format("{}: a block must have 1 to {} threads, got {}", function.name,
                            max_threads != 0 ? max_threads : kMaxThreads, threads));
  }
  check_size_limit(function, "grid", config.grid, kMaxBlocks);
  check_size_limit(function, "block", config.block, {kMaxThreads, kMaxThreads, 64});
  check_size_limit(function, "cluster", config.cluster,
                   {kMaxClusterBlocks, kMaxClusterBlocks, kMaxClusterBlocks});
  if (product(function.required_threads) != 0 && config.block != function.required_threads) {
    throw Error(fmt::format("{}: a block must have {} threads, got {}", function.name,
                            fmt::join(function.required_threads, "x"),
                            fmt::join(config.block, "x")));
  }
  const std::uint64_t cluster = product(config.cluster);
  if (product(config.grid) == 0 || cluster == 0 || cluster > kMaxClusterBlocks) {
    throw Error(
        fmt::format("{}: a grid must have at least one block, and a cluster 1 to {}; got {} and {}",
                    function.name, kMaxClusterBlocks, fmt::join(config.grid, "x"),
                    fmt::join(config.cluster, "x")));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (config.grid.at(i) % config.cluster.at(i) != 0) {
      throw Error(fmt::format("{}: a grid of {} blocks cannot be divided into clusters of {}",
                              function.name, fmt::join(config.grid, "x"),
                              fmt::join(config.cluster, "x")));
    }
  }
  if (product(function.required_cluster) != 0 && config.cluster != function.required_cluster) {
    throw Error(fmt::format("{}: a cluster must have {} blocks, got {}", function.name,
                            fmt::join(function.required_cluster, "x"),
                            fmt::join(config.cluster, "x")));
  }
  if (launch.parameters.size() != function.parameter_bytes) {
    throw Error(fmt::format("{}: expected {} bytes of parameters, got {}", function.name,
                            function.parameter_bytes, launch.parameters.size()));
  }
}

std::size_t shared_bytes_per_block(const Launch& launch) {
  const Program& program = program_of(launch.kernel);
  const std::size_t bytes = syntax::align_up(kReservedSharedBytes + program.static_shared_bytes,
                                             program.dynamic_alignment) +
                            launch.config.dynamic_shared_bytes;
  if (bytes > syntax::kMaxSharedBytes) {
    throw Error(fmt::format("{}: a block must have at most {} bytes of shared memory, got {}",
                            program.function->name, syntax::kMaxSharedBytes, bytes));
  }
  return bytes;
}

// More memory than there is, so that sums of it do not overflow.
constexpr std::uint64_t kTooManyBytes = std::uint64_t{1} << 60U;

// Estimates the host memory for the blocks of a launch that run concurrently.
std::size_t host_bytes_of_launch(const Launch& launch, const LaunchConfig& config,
                                 const RunOptions& options) {
  // Host bytes per byte of shared memory: data, initialisation flag and race detector's shadow.
  constexpr std::size_t kHostBytesPerSharedByte = 16;
  constexpr std::size_t kHostBytesPerLocalByte = 2;
  constexpr std::size_t kTensorMemoryBytes = std::size_t{1} << 20U;
  const Program& program = program_of(launch.kernel);
  const std::uint64_t threads = product(config.block);
  const std::size_t block_bytes =
      shared_bytes_per_block(launch) * kHostBytesPerSharedByte +
      threads * program.local_bytes * kHostBytesPerLocalByte +
      (threads + kLanes - 1) / kLanes * (program.register_file_words * sizeof(std::uint32_t)) +
      kTensorMemoryBytes;
  const std::uint64_t concurrent_blocks =
      config.is_cooperative
          ? product(config.grid)
          : std::max(product(config.cluster), std::uint64_t{options.resident_blocks});
  const std::uint64_t resident_blocks = std::min(product(config.grid), concurrent_blocks);
  return resident_blocks > kTooManyBytes / block_bytes
             ? kTooManyBytes
             : block_bytes * resident_blocks + 2 * launch.parameters.size();
}

// Allocates the zeros in which the blocks of a cooperative launch count at the grid's barrier; its
// address is in %envreg1 (the high half) and %envreg2.
std::uint64_t allocate_workspace(GlobalMemory& memory) {
  constexpr std::size_t kWorkspaceBytes = 64;
  const std::uint64_t address = memory.allocate(kWorkspaceBytes);
  Allocation& workspace = *memory.find(address, kWorkspaceBytes);
  std::ranges::fill(workspace.bytes, std::byte{0});
  std::ranges::fill(workspace.is_written, std::uint8_t{1});
  return address;
}

// Whether memory is allocated for a variable of a module.
bool is_allocated(const syntax::Variable& variable) {
  return (variable.space == syntax::Space::kGlobal || variable.space == syntax::Space::kConstant) &&
         variable.refusal.empty();
}

// Writes a variable's initial value; zeros for elements without one.
void initialize(GlobalMemory& memory, const LoadedModule& module, syntax::Variable& variable,
                std::uint64_t address) {
  Allocation& allocation = *memory.find(address, variable.bytes);
  variable.initial.resize(variable.bytes);
  allocation.bytes = std::exchange(variable.initial, {});
  std::ranges::fill(allocation.is_written, std::uint8_t{1});
  allocation.is_constant = variable.space == syntax::Space::kConstant;
  for (const syntax::Relocation& relocation : variable.relocations) {
    const syntax::Function* const function = module.module.find_function(relocation.symbol);
    const auto target =
        module.addresses.find(function != nullptr ? function->name : relocation.symbol);
    if (target == module.addresses.end()) {
      if (function != nullptr) {
        continue;  // a function of another module: 0 is the address of none
      }
      throw Error(fmt::format("line {}: unsupported initial value: the address of {}",
                              relocation.line, relocation.symbol));
    }
    const std::uint64_t value =
        (target->second + static_cast<std::uint64_t>(relocation.addend)) >> relocation.shift;
    for (std::size_t i = 0; i < relocation.bytes; ++i) {
      allocation.bytes[relocation.offset + i] = static_cast<std::byte>(value >> (8 * i));
    }
  }
}

// Returns the allocation that contains all these bytes. Throws Error if there is none.
template <typename Memory>
auto& find_all(Memory& memory, std::uint64_t address, std::size_t bytes, std::string_view verb) {
  auto* const allocation = memory.find(address, bytes);
  if (allocation == nullptr) {
    throw Error(fmt::format("cannot {} {} bytes at {:#x}: they are not all allocated", verb, bytes,
                            address));
  }
  return *allocation;
}

}  // namespace

struct Device::Impl {
  GlobalMemory memory;
  std::vector<std::shared_ptr<const LoadedModule>> modules;  // shared between copies of the device
  std::size_t variable_bytes = 0;    // size of the variables, which modules and memory count
  std::uint64_t functions = 0;       // number of functions that have an address
  std::uint64_t launched_grids = 0;  // number of grids launched so far
};

Device::Device() : impl_(std::make_unique<Impl>()) {}
Device::~Device() = default;
Device::Device(const Device& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}

std::uint64_t Device::allocate(std::size_t bytes) {
  return impl_->memory.allocate(bytes);
}

void Device::allocate_at(std::uint64_t address, std::size_t bytes) {
  if (address < kFirstGlobalAddress || !impl_->memory.allocate_at(address, bytes)) {
    throw Error(
        fmt::format("cannot allocate {} bytes at {:#x}: other memory is there", bytes, address));
  }
}

void Device::free(std::uint64_t address) {
  if (!impl_->memory.free(address)) {
    throw Error(fmt::format("cannot free {:#x}: no allocation begins there", address));
  }
}

void Device::write(std::uint64_t address, std::span<const std::byte> bytes) {
  Allocation& allocation = find_all(impl_->memory, address, bytes.size(), "write");
  const auto first = static_cast<std::ptrdiff_t>(address - allocation.address);
  std::ranges::copy(bytes, allocation.bytes.begin() + first);
  std::fill_n(allocation.is_written.begin() + first, bytes.size(), true);
}

void Device::read(std::span<std::byte> bytes, std::uint64_t address) const {
  std::ranges::copy(view(address, bytes.size()), bytes.begin());
}

void Device::copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  const Allocation& source = find_all(impl_->memory, from, bytes, "read");
  Allocation& target = find_all(impl_->memory, to, bytes, "write");
  const std::size_t source_offset = from - source.address;
  const std::size_t target_offset = to - target.address;
  std::memmove(target.bytes.data() + target_offset, source.bytes.data() + source_offset, bytes);
  std::memmove(target.is_written.data() + target_offset, source.is_written.data() + source_offset,
               bytes);
}

std::span<const std::byte> Device::view(std::uint64_t address, std::size_t bytes) const {
  const Allocation& allocation = find_all(std::as_const(impl_->memory), address, bytes, "read");
  return std::span(allocation.bytes).subspan(address - allocation.address, bytes);
}

std::vector<KernelHandle> Device::load(std::string_view ptx, std::size_t max_bytes, Decode when) {
  return load_module(ptx, max_bytes, when).kernels;
}

ModuleHandle Device::load_module(std::string_view ptx, std::size_t max_bytes, Decode when) {
  const auto loaded = std::make_shared<LoadedModule>(ptx, max_bytes);
  std::size_t variables = 0;  // total size of the variables
  for (const syntax::Variable& variable : loaded->module.variables) {
    if (is_allocated(variable)) {
      loaded->addresses.emplace(
          variable.name,
          impl_->memory.allocate(variable.bytes, std::max<std::size_t>(variable.alignment, 256)));
      variables += variable.bytes;
    }
  }
  for (const auto& [name, function] : loaded->module.functions) {
    if (function.is_defined) {
      loaded->addresses.emplace(name, kCodeWindow + kCodeBytes * impl_->functions++);
    }
  }
  ModuleHandle handle;
  for (syntax::Variable& variable : loaded->module.variables) {
    if (is_allocated(variable)) {
      const std::uint64_t address = loaded->addresses.at(variable.name);
      initialize(impl_->memory, *loaded, variable, address);
      handle.variables.push_back(
          {.name = variable.name, .address = address, .bytes = variable.bytes});
    }
  }
  std::vector<KernelHandle>& kernels = handle.kernels;
  for (const syntax::Function& function : loaded->module.kernels) {
    LoadedKernel& kernel = loaded->kernels.emplace_back();
    kernel.module = loaded.get();
    kernel.function = &function;
    kernels.push_back({.name = function.name,
                       .program = &kernel,
                       .required_threads = function.required_threads,
                       .required_cluster = function.required_cluster,
                       .max_threads = product(function.max_threads)});
    for (const syntax::Variable& parameter : function.parameters) {
      kernels.back().parameters.push_back({.name = parameter.name,
                                           .offset = parameter.offset,
                                           .bytes = parameter.bytes,
                                           .alignment = parameter.alignment,
                                           .type = parameter.type,
                                           .is_array = parameter.is_array,
                                           .is_pointer = parameter.is_pointer});
    }
    if (when == Decode::kAtOnce) {
      static_cast<void>(program_of(kernels.back()));
    }
  }
  impl_->variable_bytes += 2 * variables;  // `memory` counts the variables
  impl_->modules.push_back(loaded);
  return handle;
}

KernelInfo Device::info(const KernelHandle& kernel) const {
  const Program& program = program_of(kernel);
  const syntax::Function& function = *program.function;
  const std::uint64_t required = product(function.required_threads);
  return {.static_shared_bytes = program.static_shared_bytes,
          .local_bytes = program.local_bytes,
          .max_threads =
              static_cast<std::uint32_t>(required != 0 ? required : product(function.max_threads)),
          .max_registers = static_cast<std::uint32_t>(function.max_registers),
          .cluster = function.required_cluster,
          .target = program.module->target};
}

void Device::decode(const KernelHandle& kernel) const {
  static_cast<void>(program_of(kernel));
}

std::size_t Device::host_bytes() const {
  std::size_t bytes = 2 * impl_->memory.bytes();  // data and initialisation flags
  for (const auto& module : impl_->modules) {
    const std::scoped_lock lock(module->memory_mutex);
    bytes += module->memory.bytes();
  }
  return bytes - impl_->variable_bytes;
}

std::size_t Device::host_bytes_of_run(std::span<const Launch> launches,
                                      const RunOptions& options) const {
  std::size_t maximum = 0;
  std::size_t overlapping_bytes = 0;  // host memory of the grids that overlap
  for (const Launch& launch : launches) {
    const LaunchConfig config = config_in_blocks(launch);
    check_launch(launch, config);
    overlapping_bytes = (config.is_dependent ? overlapping_bytes : 0) +
                        host_bytes_of_launch(launch, config, options);
    overlapping_bytes = std::min<std::size_t>(overlapping_bytes, kTooManyBytes);
    maximum = std::max(maximum, overlapping_bytes);
  }
  return maximum + 2 * impl_->memory.bytes();
}

Report Device::run(std::span<const Launch> launches, const RunOptions& options) {
  std::mt19937_64 random(options.seed);
  std::deque<Grid> grids;
  const bool orders_clusters = std::ranges::any_of(
      launches, [](const Launch& launch) { return program_of(launch.kernel).orders_clusters; });
  races::RunRaces races({.tensor_fences = options.check_tensor_fences,
                         .init_fences = options.check_init_fences,
                         .ordered_ends = options.check_relaxed_ends,
                         .orders_clusters = orders_clusters});
  Report report;
  FindingLog log(options, report);
  impl_->memory.clear_shadows();
  Tracer tracer(options.trace, &passes_of_access);
  Printed printed;
  for (const Launch& launch : launches) {
    const LaunchConfig config = config_in_blocks(launch);
    check_launch(launch, config);
    const Program& program = program_of(launch.kernel);
    const Grid* const previous = grids.empty() ? nullptr : &grids.back();
    grids.push_back(
        Grid{.program = &program,
             .memory = impl_->memory,
             .random = random,
             .number = ++impl_->launched_grids,
             .blocks = config.grid,
             .threads = config.block,
             .cluster = config.cluster,
             .shared_bytes = shared_bytes_per_block(launch),
             .dynamic_shared_bytes = config.dynamic_shared_bytes,
             .registers = registers_per_thread(*program.function, product(config.block)),
             .parameters = launch.parameters,
             .previous = previous,
             .is_cooperative = config.is_cooperative,
             .workspace = config.is_cooperative ? allocate_workspace(impl_->memory) : 0,
             .is_dependent = config.is_dependent,
             .races = options.check_races ? &races : nullptr,
             .checks_swizzle_starts = options.check_swizzle_starts,
             .checks_last_stores = options.check_last_stores,
             .checks_late_commits = options.check_late_commits,
             .checks_stored_values = options.check_stored_values,
             .checks_zeroed_accumulators = options.check_zeroed_accumulators,
             .checks_tensor_waits = options.check_tensor_waits,
             .checks_same_stores = options.check_same_stores,
             .findings = &log,
             .printed = &printed,
             .tracer = options.trace ? &tracer : nullptr});
  }
  try {
    Scheduler(grids, options, random).run_to_end(report);
    report.has_ended = true;
  } catch (Stop& stop) {
    if (stop.finding.has_value()) {
      log.add_last(std::move(*stop.finding));
    }
  }
  for (const Grid& grid : grids) {
    if (grid.workspace != 0) {
      impl_->memory.free(grid.workspace);
    }
  }
  report.printed = printed.take();
  return report;
}

void RunOptions::let_hardware_customs_pass() {
  for (bool RunOptions::* const check : kHardwareCustoms) {
    this->*check = false;
  }
}

Report Device::launch(const KernelHandle& kernel, const LaunchConfig& config,
                      std::span<const std::byte> parameters, const RunOptions& options) {
  const Launch launch{
      .kernel = kernel, .config = config, .parameters = {parameters.begin(), parameters.end()}};
  return run({&launch, 1}, options);
}

}  // namespace emu
