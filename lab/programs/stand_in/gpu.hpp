// The emulated GPU of a program: its memory, modules, and the launches that wait to run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "lab/programs/error_codes.hpp"
#include "lab/programs/journal.hpp"
#include "lab/programs/schedule_totals.hpp"
#include "lab/programs/settings.hpp"

namespace fovea::programs {

class Gpu;

/// Where memory is, and who may access it.
enum class MemoryKind : std::uint8_t {
  kDevice,
  kManaged,     // of both
  kPinned,      // of the host, accessible by kernels at the same address
  kRegistered,  // of the program, which has made it accessible
  kVariable,    // of a module
};

struct Memory {
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  std::uint64_t number = 0;  // of the program's allocations, from 1

  [[nodiscard]] bool is_on_host() const {
    return kind == MemoryKind::kManaged || kind == MemoryKind::kPinned ||
           kind == MemoryKind::kRegistered;
  }
};

/// Kernels and variables of one fat binary or PTX text, loaded when first used.
class Module {
 public:
  /// `image` is PTX, a fat binary, or nvcc's description of one, and must stay where it is until
  /// the module is loaded.
  explicit Module(const void* image) : image_(image) {}

  /// Throws CallError where it cannot be loaded.
  void load(Gpu& gpu);
  [[nodiscard]] const emu::KernelHandle& kernel(Gpu& gpu, const std::string& name);
  [[nodiscard]] const emu::VariableHandle& variable(Gpu& gpu, const std::string& name);

 private:
  const void* image_;
  bool is_loaded_ = false;
  emu::ModuleHandle handle_{};
};

/// A kernel as the program knows it: what a stub on the host stands for, or a driver's handle.
struct Function {
  Module* module = nullptr;
  std::string name{};  // in the PTX
  /// Limit of dynamic shared memory in bytes, which the program may raise; -1: the default.
  int max_dynamic_shared_bytes = -1;
};

struct LaunchRequest {
  Function* function = nullptr;
  emu::LaunchConfig config{};
  void** arguments = nullptr;           // addresses of the arguments
  std::span<const std::byte> buffer{};  // or all of them, in the layout of the parameters
  bool is_cooperative = false;
  const void* stream = nullptr;
};

class Gpu {
 public:
  /// The GPU of this process.
  static Gpu& instance();

  /// Must be held by callers of all other functions.
  [[nodiscard]] std::recursive_mutex& mutex() { return mutex_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] Journal& journal() { return journal_; }
  [[nodiscard]] emu::Device& device() { return *device_; }

  // Memory. All throw CallError.
  std::uint64_t allocate(std::size_t bytes);
  /// Allocates memory of the host that kernels may access.
  void* allocate_on_host(std::size_t bytes, MemoryKind kind);
  void register_host(void* address, std::size_t bytes);
  void unregister_host(void* address);
  /// Frees what the three functions above have made; a null address is allowed.
  void free(std::uint64_t address);
  /// Finds the memory that contains this address; null if there is none.
  [[nodiscard]] const Memory* find(std::uint64_t address) const;
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes);
  /// Fills memory with a value of 1, 2 or 4 bytes.
  void fill(std::uint64_t to, std::span<const std::byte> value, std::size_t count);
  [[nodiscard]] std::size_t used_bytes() const { return used_bytes_; }
  void note_variables(const std::vector<emu::VariableHandle>& variables);

  // Modules.
  Module& add_module(const void* image);
  Function& add_function(Module& module, std::string name);
  /// Finds the function by its handle, or by the address of its stub on the host. Throws CallError.
  [[nodiscard]] Function& function(const void* handle);
  void register_stub(const void* stub, Function& function) { stubs_[stub] = &function; }
  struct Variable {
    Module* module = nullptr;
    std::string name{};
  };
  void register_variable(const void* shadow, Variable variable) {
    variables_[shadow] = std::move(variable);
  }
  /// Finds a variable by the address of its shadow on the host. Throws CallError.
  [[nodiscard]] const emu::VariableHandle& variable(const void* shadow);
  [[nodiscard]] emu::KernelInfo info(Function& function);
  [[nodiscard]] const emu::KernelHandle& handle(Function& function) {
    return function.module->kernel(*this, function.name);
  }

  // Launches.
  void launch(const LaunchRequest& request);
  /// Runs the launches that wait. Throws CallError if one of them, or one before, has failed.
  void synchronize();

 private:
  struct Pending {
    emu::Launch launch{};
    std::uint64_t number = 0;
    const void* stream = nullptr;
    bool is_searched = false;
  };
  using Group = std::vector<Pending>;

  Gpu();
  /// Throws CallError if the grid of a cooperative launch, in blocks, has no room on the GPU.
  void check_cooperative(Function& function, const emu::LaunchConfig& config);
  void run_pending();
  void run_group(const Group& group);
  /// Runs the schedules of a group behind the first one, each on a copy of the memory.
  void search(const std::vector<emu::Launch>& launches, const emu::RunOptions& options,
              ScheduleTotals& totals);
  /// Writes down what the schedule of a group with this seed has found.
  void add_findings(const Group& group, const LaunchRecord& record,
                    std::vector<emu::Finding>& findings, std::uint64_t seed);
  /// Runs the group so that the program goes on with the results, behind all findings that allow
  /// it.
  emu::Report run_for_program(const std::vector<emu::Launch>& launches,
                              const emu::RunOptions& options);
  void write_host_changes();
  void read_device_changes();
  void add_memory(const Memory& memory);
  /// Throws CallError if so many more bytes are not allowed.
  void check_room(std::size_t bytes) const;
  [[nodiscard]] const Memory* find_all(std::uint64_t address, std::size_t bytes,
                                       const char* what) const;
  [[nodiscard]] std::string place_text(std::uint64_t address) const;

  std::recursive_mutex mutex_;
  Settings settings_;
  Journal journal_;
  std::unique_ptr<emu::Device> device_ = std::make_unique<emu::Device>();
  std::map<std::uint64_t, Memory> memory_;  // by address
  std::uint64_t allocations_ = 0;           // made so far
  std::size_t used_bytes_ = 0;
  std::uint64_t highest_device_address_ = 0;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<const void*, std::unique_ptr<Function>> functions_;  // by handle
  std::map<const void*, Function*> stubs_;
  std::map<const void*, Variable> variables_;
  Group pending_;
  std::uint64_t launches_ = 0;
  int failure_ = kSuccess;  // of a launch, which all later calls return
};

/// Sizes and limits of the emulated GPU, those of a Hopper or Blackwell but for the number of SMs.
struct GpuLimits {
  static constexpr int kSms = 8;
  static constexpr int kMaxThreads = 1024;
  static constexpr int kThreadsPerSm = 2048;
  static constexpr int kBlocksPerSm = 32;
  static constexpr int kRegisters = 65536;        // per block, and per SM
  static constexpr int kSharedBytes = 48 * 1024;  // per block, unless the program asks for more
  static constexpr int kMaxSharedBytes = 227 * 1024;
  static constexpr int kSharedBytesPerSm = 228 * 1024;
  static constexpr int kReservedSharedBytes = 1024;  // per block
  static constexpr int kL2Bytes = 50 << 20;
  static constexpr int kMaxCluster = 8;
  static constexpr int kClockKhz = 1'980'000;
};

/// Number of blocks that an SM has room for. Throws CallError.
[[nodiscard]] int blocks_per_sm(Gpu& gpu, Function& function, int threads,
                                std::size_t dynamic_shared_bytes);

}  // namespace fovea::programs
