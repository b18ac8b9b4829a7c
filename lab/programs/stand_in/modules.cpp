// Modules of a program: their PTX is taken out of fat binaries when it is first used.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "fovea_emulator/error.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/programs/fatbin.hpp"
#include "lab/programs/stand_in/gpu.hpp"

namespace fovea::programs {
namespace {

// Description of a fat binary that nvcc puts into the program.
struct FatbinWrapper {
  static constexpr std::uint32_t kMagic = 0x466243B1;
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  const void* fatbin = nullptr;
  const void* linked = nullptr;
};

template <typename Type>
Type read_at(const void* address) {
  Type value{};
  std::memcpy(&value, address, sizeof(value));
  return value;
}

// Lists the fat binary's entries. Its size is the one that it announces itself: it lies in the
// memory of the program, which has passed its address alone.
std::vector<CodeEntry> entries_of(const void* fatbin) {
  const auto* const bytes = static_cast<const std::byte*>(fatbin);
  const std::size_t size =
      fatbin_bytes(std::span<const std::byte, kFatbinHeaderBytes>(bytes, kFatbinHeaderBytes));
  if (size == 0) {
    throw CallError{kInvalidImage, "a module is neither PTX nor a fat binary"};
  }
  try {
    return read_fatbin({bytes, size});
  } catch (const Error& error) {
    throw CallError{kInvalidImage, error.what()};
  }
}

// Returns the PTX for the newest architecture that the GPU can run.
std::string choose_ptx(const std::vector<CodeEntry>& entries, int gpu) {
  const CodeEntry* best = nullptr;
  std::set<std::string> ptx_targets;
  std::set<std::string> code_targets;
  const auto rank = [](const CodeEntry& entry) { return std::pair(entry.arch, entry.variant); };
  for (const CodeEntry& entry : entries) {
    (entry.is_ptx ? ptx_targets : code_targets).insert(entry.target());
    if (entry.is_ptx && entry.runs_on(gpu) && (best == nullptr || rank(*best) < rank(entry))) {
      best = &entry;
    }
  }
  if (best != nullptr) {
    try {
      return unpack_ptx(*best, emulation::kMaxPtxBytes);
    } catch (const Error& error) {
      throw CallError{kInvalidImage, error.what()};
    }
  }
  if (!ptx_targets.empty()) {
    throw CallError{kNoKernelImage,
                    fmt::format("the program carries PTX for {} alone, but the emulated GPU is "
                                "sm_{}a; choose another one with --target, or build with nvcc "
                                "-gencode arch=compute_{},code=compute_{}",
                                fmt::join(ptx_targets, ", "), gpu, gpu, gpu)};
  }
  throw CallError{
      kNoKernelImage,
      fmt::format(
          "the program carries machine code for {} alone, but the emulator runs PTX; build "
          "with nvcc -gencode arch=compute_{},code=compute_{}, and without -rdc=true",
          code_targets.empty() ? "no GPU" : fmt::format("{}", fmt::join(code_targets, ", ")), gpu,
          gpu)};
}

std::string ptx_of(const void* image, int gpu) {
  constexpr std::uint32_t kElfMagic = 0x464C457F;
  const auto magic = read_at<std::uint32_t>(image);
  if (magic == FatbinWrapper::kMagic) {
    return choose_ptx(entries_of(read_at<FatbinWrapper>(image).fatbin), gpu);
  }
  if (magic == kFatbinMagic) {
    return choose_ptx(entries_of(image), gpu);
  }
  if (magic == kElfMagic) {
    throw CallError{kInvalidImage,
                    "a module is machine code (a cubin), but the emulator runs PTX; load what nvcc "
                    "-ptx or -fatbin has made"};
  }
  return static_cast<const char*>(image);
}

template <typename Handles>
const auto& find_named(const Handles& handles, const std::string& name, const char* what) {
  const auto found =
      std::ranges::find_if(handles, [&](const auto& handle) { return handle.name == name; });
  if (found == handles.end()) {
    throw CallError{kNotFound,
                    fmt::format("the module has no {} {}", what, emulation::plain_name(name))};
  }
  return *found;
}

}  // namespace

void Module::load(Gpu& gpu) {
  if (is_loaded_) {
    return;
  }
  const std::string ptx = ptx_of(image_, gpu.settings().arch);
  try {
    handle_ = gpu.device().load_module(ptx, gpu.settings().max_memory, emu::Decode::kAtLaunch);
  } catch (const emu::Error& error) {
    throw CallError{kInvalidPtx,
                    fmt::format("the PTX of a module cannot be run: {}", error.what())};
  }
  gpu.note_variables(handle_.variables);
  is_loaded_ = true;
}

const emu::KernelHandle& Module::kernel(Gpu& gpu, const std::string& name) {
  load(gpu);
  return find_named(handle_.kernels, name, "kernel");
}

const emu::VariableHandle& Module::variable(Gpu& gpu, const std::string& name) {
  load(gpu);
  return find_named(handle_.variables, name, "variable");
}

Module& Gpu::add_module(const void* image) {
  return *modules_.emplace_back(std::make_unique<Module>(image));
}

Function& Gpu::add_function(Module& module, std::string name) {
  auto function = std::make_unique<Function>();
  function->module = &module;
  function->name = std::move(name);
  Function& added = *function;
  functions_.emplace(&added, std::move(function));
  return added;
}

Function& Gpu::function(const void* handle) {
  if (const auto stub = stubs_.find(handle); stub != stubs_.end()) {
    return *stub->second;
  }
  const auto found = functions_.find(handle);
  if (found == functions_.end()) {
    throw CallError{kInvalidFunction, "a launch names a function that is no kernel"};
  }
  return *found->second;
}

const emu::VariableHandle& Gpu::variable(const void* shadow) {
  const auto found = variables_.find(shadow);
  if (found == variables_.end()) {
    throw CallError{kInvalidSymbol, "a copy names a symbol that is no variable of a kernel"};
  }
  return found->second.module->variable(*this, found->second.name);
}

emu::KernelInfo Gpu::info(Function& function) {
  const emu::KernelHandle& kernel = handle(function);
  try {
    return device_->info(kernel);
  } catch (const emu::Error& error) {
    throw CallError{kInvalidPtx, fmt::format("the kernel {} cannot be run: {}",
                                             emulation::plain_name(function.name), error.what())};
  }
}

}  // namespace fovea::programs
