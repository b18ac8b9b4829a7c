// A GPU in software: memory, modules, and grids whose blocks and warps run in turns that a seed
// decides.
#include "fovea_emulator/device.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/block.hpp"
#include "emulator/machine/global_memory.hpp"
#include "emulator/program/program.hpp"
#include "emulator/syntax/module.hpp"
#include "fovea_emulator/error.hpp"

namespace emu {
namespace {

constexpr std::uint32_t kMostThreads = 1024;
constexpr std::size_t kMostSharedBytes = 228 << 10U;
constexpr int kMostTurn = 64;  // operations that a warp runs at a time

struct LoadedModule {
  std::unique_ptr<syntax::Module> module;
  std::deque<Program> programs;
};

std::uint64_t product(const std::array<std::uint32_t, 3>& sizes) {
  return std::uint64_t{sizes[0]} * sizes[1] * sizes[2];
}

// Runs a grid: a few blocks at a time, whose warps take turns.
class Run {
 public:
  Run(Grid& grid, const RunOptions& options) : grid_(grid), options_(options) {}

  void to_end(Report& report) {
    const std::uint64_t blocks = product(grid_.blocks);
    std::uint64_t next = 0;
    while (next < blocks || !resident_.empty()) {
      while (next < blocks &&
             resident_.size() < std::size_t(std::max(options_.resident_blocks, 1))) {
        resident_.push_back(std::make_unique<Block>(grid_, place_of(next++)));
      }
      take_turn(report);
      std::erase_if(resident_, [](const auto& block) { return block->is_done(); });
    }
  }

 private:
  struct Runnable {
    Warp* warp;
    std::size_t split;
  };

  [[nodiscard]] std::array<std::uint32_t, 3> place_of(std::uint64_t block) const {
    return {static_cast<std::uint32_t>(block % grid_.blocks[0]),
            static_cast<std::uint32_t>(block / grid_.blocks[0] % grid_.blocks[1]),
            static_cast<std::uint32_t>(block / grid_.blocks[0] / grid_.blocks[1])};
  }

  // Every split that can run gets a turn, in an order that the seed decides.
  void take_turn(Report& report) {
    runnable_.clear();
    for (const auto& block : resident_) {
      for (Warp& warp : block->warps()) {
        for (std::size_t split = 0; split < warp.splits().size(); ++split) {
          if (warp.can_run(split)) {
            runnable_.push_back({&warp, split});
          }
        }
      }
    }
    std::ranges::shuffle(runnable_, grid_.random);
    std::uint64_t done = 0;
    for (const auto& [warp, split] : runnable_) {
      if (split >= warp->splits().size() || !warp->can_run(split)) {
        continue;  // what ran before it in this turn has changed the splits
      }
      const int most = 1 + static_cast<int>(grid_.random() % kMostTurn);
      done += static_cast<std::uint64_t>(warp->run(split, most));
    }
    report.steps += done;
    if (done == 0) {
      stop_deadlocked();
    }
    if (options_.most_steps != 0 && report.steps > options_.most_steps) {
      const Runnable& first = runnable_.front();
      stop_at(first, FindingKind::kNoProgress,
              fmt::format("the grid has not ended after {} operations", report.steps));
    }
  }

  [[noreturn]] void stop_at(const Runnable& where, FindingKind kind, std::string message) const {
    const Split& split = where.warp->splits()[where.split];
    where.warp->stop(kind, grid_.program->ops[static_cast<std::size_t>(split.at)], split.lanes,
                     std::move(message));
  }

  [[noreturn]] void stop_deadlocked() const {
    constexpr std::size_t kMostTold = 16;
    std::string waiting;
    for (std::size_t i = 0; i < std::min(runnable_.size(), kMostTold); ++i) {
      const auto& [warp, number] = runnable_[i];
      const Split& split = warp->splits()[number];
      const Op& op = grid_.program->ops[static_cast<std::size_t>(split.at)];
      waiting +=
          fmt::format("{}block ({}) warp {} lanes {:#010x} at {}, line {}",
                      waiting.empty() ? "" : "; ", fmt::join(warp->block().index(), ","),
                      warp->index(), split.lanes, op.instruction->opcode, op.instruction->line);
    }
    if (runnable_.size() > kMostTold) {
      waiting += fmt::format("; and {} more", runnable_.size() - kMostTold);
    }
    stop_at(runnable_.front(), FindingKind::kDeadlock, "nobody can go on: " + waiting);
  }

  Grid& grid_;
  const RunOptions& options_;
  std::deque<std::unique_ptr<Block>> resident_;
  std::vector<Runnable> runnable_;
};

}  // namespace

struct Device::Impl {
  GlobalMemory memory;
  std::deque<LoadedModule> modules;
};

Device::Device() : impl_(std::make_unique<Impl>()) {}
Device::~Device() = default;

std::uint64_t Device::allocate(std::size_t bytes) {
  return impl_->memory.allocate(bytes);
}

void Device::free(std::uint64_t address) {
  if (!impl_->memory.free(address)) {
    throw Error(fmt::format("{:#x} was not allocated", address));
  }
}

void Device::write(std::uint64_t address, std::span<const std::byte> bytes) {
  Allocation* const found = impl_->memory.find(address, bytes.size());
  if (found == nullptr) {
    throw Error(fmt::format("{} bytes at {:#x} are not all allocated", bytes.size(), address));
  }
  const auto first = static_cast<std::ptrdiff_t>(address - found->address);
  std::ranges::copy(bytes, found->bytes.begin() + first);
  std::fill_n(found->is_written.begin() + first, bytes.size(), true);
}

void Device::read(std::span<std::byte> bytes, std::uint64_t address) const {
  const Allocation* const found = std::as_const(impl_->memory).find(address, bytes.size());
  if (found == nullptr) {
    throw Error(fmt::format("{} bytes at {:#x} are not all allocated", bytes.size(), address));
  }
  std::ranges::copy_n(found->bytes.begin() + static_cast<std::ptrdiff_t>(address - found->address),
                      static_cast<std::ptrdiff_t>(bytes.size()), bytes.begin());
}

std::vector<KernelHandle> Device::load(std::string_view ptx) {
  LoadedModule loaded{.module = std::make_unique<syntax::Module>(syntax::parse(ptx)),
                      .programs = {}};
  std::map<std::string, std::uint64_t, std::less<>> addresses;
  for (const syntax::Variable& variable : loaded.module->variables) {
    if (variable.space == syntax::Space::kGlobal || variable.space == syntax::Space::kConstant) {
      const std::uint64_t address =
          impl_->memory.allocate(variable.bytes, std::max<std::size_t>(variable.alignment, 256));
      addresses.emplace(variable.name, address);
      std::vector<std::byte> initial = variable.initial;
      initial.resize(variable.bytes);
      write(address, initial);
    }
  }
  std::vector<KernelHandle> kernels;
  for (const syntax::Function& function : loaded.module->kernels) {
    loaded.programs.push_back(decode(*loaded.module, function, addresses));
    kernels.push_back({.name = function.name, .program = &loaded.programs.back()});
  }
  impl_->modules.push_back(std::move(loaded));
  return kernels;
}

Report Device::launch(const KernelHandle& kernel, const LaunchConfig& config,
                      std::span<const std::byte> parameters, const RunOptions& options) {
  const Program& program = *static_cast<const Program*>(kernel.program);
  const syntax::Function& function = *program.function;
  const std::uint64_t threads = product(config.block);
  const std::uint64_t said = product(function.most_threads);
  if (threads == 0 || threads > kMostThreads || (said != 0 && threads > said)) {
    throw Error(fmt::format("{}: {} threads in a block; from 1 to {} are allowed", function.name,
                            threads, said != 0 ? said : kMostThreads));
  }
  if (product(function.required_threads) != 0 && config.block != function.required_threads) {
    throw Error(fmt::format("{}: a block has {} threads and must have {}", function.name,
                            fmt::join(config.block, "x"),
                            fmt::join(function.required_threads, "x")));
  }
  if (parameters.size() != function.parameter_bytes) {
    throw Error(fmt::format("{}: {} bytes of parameters, but the kernel has {}", function.name,
                            parameters.size(), function.parameter_bytes));
  }
  const std::size_t alignment = program.dynamic_alignment;
  const std::size_t fixed =
      (kReservedSharedBytes + program.static_shared_bytes + alignment - 1) / alignment * alignment;
  Grid grid{.program = &program,
            .memory = &impl_->memory,
            .blocks = config.grid,
            .threads = config.block,
            .shared_bytes = fixed + config.dynamic_shared_bytes,
            .parameters = {parameters.begin(), parameters.end()},
            .random = std::mt19937_64(options.seed)};
  if (grid.shared_bytes > kMostSharedBytes) {
    throw Error(fmt::format("{}: {} bytes of shared memory; at most {} are allowed", function.name,
                            grid.shared_bytes, kMostSharedBytes));
  }
  Report report;
  try {
    Run(grid, options).to_end(report);
  } catch (Stop& stop) {
    report.findings.push_back(std::move(stop.finding));
  }
  return report;
}

}  // namespace emu
