// Compiles CUDA sources of other people to PTX, with nvcc.
#include "lab/system/cuda_source.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include "core/error.hpp"
#include "io/text.hpp"
#include "lab/system/compiler.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

constexpr double kMaxCompileSeconds = 600;

bool names_architecture(const std::string& flag) {
  constexpr std::array<std::string_view, 5> kFlags = {"-arch", "--gpu-architecture", "-gencode",
                                                      "--generate-code", "-code"};
  return std::ranges::any_of(kFlags, [&](std::string_view name) { return flag.starts_with(name); });
}

}  // namespace

void compile_to_ptx(const std::filesystem::path& source, const std::filesystem::path& ptx,
                    const std::vector<std::string>& flags) {
  if (access(source.c_str(), R_OK) != 0) {
    fail("{}: cannot open: {}", io::escape(source.native()), std::strerror(errno));
  }
  const std::string nvcc = find_program("nvcc");
  if (nvcc.empty()) {
    fail(
        "{}: a CUDA source needs nvcc, which is neither on the PATH nor in CUDA's folders; PTX "
        "that "
        "nvcc -ptx -lineinfo has made elsewhere needs no compiler",
        source.string());
  }
  std::vector<std::string> command = {nvcc, "-ptx", "-lineinfo"};
  if (std::ranges::none_of(flags, names_architecture)) {
    command.emplace_back("-arch=sm_90a");
  }
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"-o", ptx.string(), source.string()});
  const ProcessResult result = run_process(command, {.max_seconds = kMaxCompileSeconds});
  if (result.timed_out) {
    throw CompileError("nvcc has not ended within ten minutes");
  }
  if (result.exit_code != 0) {
    throw CompileError(result.output + result.errors);
  }
}

}  // namespace fovea::lab
