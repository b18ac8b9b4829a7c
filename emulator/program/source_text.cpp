// Text of an instruction's place in the source, with the calls in whose place it was inlined.
#include "emulator/program/source_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include <fmt/format.h>

namespace emu {
namespace {

constexpr std::size_t kMaxFrames = 256;  // more than compilers inline into each other

// Folders that only the toolkit has, and beginnings of the names of its headers with code for GPUs.
constexpr std::array<std::string_view, 4> kToolkitFolders = {"cooperative_groups", "cccl", "crt",
                                                             "libcudacxx"};
constexpr std::array<std::string_view, 13> kToolkitNames = {"cooperative_groups.h",
                                                            "cuda_pipeline.h",
                                                            "cuda_pipeline_primitives.h",
                                                            "cuda_pipeline_helpers.h",
                                                            "cuda_awbarrier.h",
                                                            "cuda_awbarrier_primitives.h",
                                                            "cuda_awbarrier_helpers.h",
                                                            "cuda_fp16.",
                                                            "cuda_bf16.",
                                                            "cuda_fp8.",
                                                            "cuda_fp6.",
                                                            "cuda_fp4.",
                                                            "device_atomic_functions."};

std::vector<std::string_view> parts_of_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of("/\\"), path.size());
    parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

const syntax::Function* function_of(const Program& program,
                                    const syntax::Instruction& instruction) {
  const auto found = std::ranges::find_if(program.bodies, [&](const syntax::Function& body) {
    const syntax::Instruction* const begin = body.instructions.data();
    return !std::less<>{}(&instruction, begin) &&
           std::less<>{}(&instruction, begin + body.instructions.size());
  });
  return found == program.bodies.end() ? nullptr : &*found;
}

}  // namespace

bool is_toolkit_header(std::string_view file) {
  const std::vector<std::string_view> parts = parts_of_path(file);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const bool is_root =
        parts[i] == "include" && i >= 2 &&
        (parts[i - 2] == "targets" || (parts[i - 2] == "nvidia" && parts[i - 1].starts_with("cu")));
    if (is_root || std::ranges::find(kToolkitFolders, parts[i]) != kToolkitFolders.end()) {
      return true;
    }
  }
  const std::string_view name = parts.empty() ? file : parts.back();
  const bool is_of_sm =
      name.starts_with("sm_") && (name.find("_intrinsics.") != std::string_view::npos ||
                                  name.find("_atomic_functions.") != std::string_view::npos);
  return is_of_sm || std::ranges::any_of(kToolkitNames, [&](std::string_view known) {
           return name.starts_with(known);
         });
}

std::string source_text(const Program& program, const syntax::Instruction& instruction) {
  const std::vector<std::string>& files = program.module->files;
  const syntax::Function* const function = function_of(program, instruction);
  std::vector<std::string> frames;  // innermost first
  std::size_t first = 0;            // number of the innermost frame outside of the toolkit
  bool is_known = false;
  const syntax::SourcePlace* place = &instruction.source;
  while (place != nullptr && frames.size() < kMaxFrames) {
    const auto file = static_cast<std::size_t>(place->position.file);
    if (place->position.file > 0 && file < files.size()) {
      if (!is_known && !is_toolkit_header(files[file])) {
        is_known = true;
        first = frames.size();
      }
      frames.push_back(fmt::format("{}:{}", files[file], place->position.line));
    }
    place = function == nullptr || place->caller < 0
                ? nullptr
                : &function->calls[static_cast<std::size_t>(place->caller)];
  }
  if (frames.empty()) {
    return "";
  }
  std::string text = frames[first];
  for (std::size_t i = first + 1; i < frames.size(); ++i) {
    text += fmt::format(" (inlined at {})", frames[i]);
  }
  for (std::size_t i = first; i-- > 0;) {
    text += fmt::format(" (inside {})", frames[i]);
  }
  return text;
}

}  // namespace emu
