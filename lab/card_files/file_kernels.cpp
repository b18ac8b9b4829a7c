// Compiles the source of a card file, and adds its kernels to those of the program.
#include "lab/card_files/file_kernels.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <deque>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/text.hpp"
#include "lab/emulation/emulation.hpp"
#include "lab/emulation/ptx_file.hpp"
#include "lab/system/compiler.hpp"
#include "lab/system/cuda_source.hpp"
#include "lab/system/kernel_sources.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxAssembleSeconds = 600;

// Texts and code of added kernels, which the program keeps until it ends.
template <typename T>
const T& kept(T value) {
  static std::deque<T> all;
  return all.emplace_back(std::move(value));
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$';
}

/// Returns the text in which a word has another name.
std::string renamed(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t copied = 0;
  for (std::size_t found = text.find(from); found != std::string_view::npos;
       found = text.find(from, found + from.size())) {
    const std::size_t end = found + from.size();
    if ((found == 0 || !is_word(text[found - 1])) && (end == text.size() || !is_word(text[end]))) {
      result.append(text, copied, found - copied).append(to);
      copied = end;
    }
  }
  return result.append(text, copied);
}

/// Returns a name for a kernel that no other kernel of the program has: the plain name in C++, with
/// underscores for what names in PTX must not have.
std::string new_name(const std::string& name) {
  std::string plain;
  for (const char c : emulation::plain_name(name)) {
    if (is_word(c)) {
      plain += c;
    } else if (!plain.empty() && plain.back() != '_') {
      plain += '_';
    }
  }
  while (plain.ends_with('_')) {
    plain.pop_back();
  }
  std::string unique = plain;
  for (int number = 2; gpu::find_kernel(unique); ++number) {
    unique = fmt::format("{}_{}", plain, number);
  }
  return unique;
}

/// Returns the target of PTX, as its directive says: "sm_90a".
std::string target_of(std::string_view ptx) {
  constexpr std::string_view kDirective = ".target";
  const std::size_t place = ptx.find(kDirective);
  std::string_view rest =
      place == std::string_view::npos ? "" : ptx.substr(place + kDirective.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return std::string(rest.substr(0, rest.find_first_of(", \t\r\n")));
}

gpu::Target parse_target(const std::string& name) {
  int arch = 0;
  const std::string_view digits =
      std::string_view(name).substr(std::min<std::size_t>(3, name.size()));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), arch);
  const std::string_view suffix(end, static_cast<std::size_t>(digits.data() + digits.size() - end));
  if (!name.starts_with("sm_") || error != std::errc{} ||
      (!suffix.empty() && suffix != "a" && suffix != "f")) {
    fail("{} is no target; sm_80 and sm_90a are some", io::printable(name));
  }
  return {.arch = arch,
          .code = suffix == "a"   ? gpu::Code::kOneArch
                  : suffix == "f" ? gpu::Code::kFamily
                                  : gpu::Code::kMachine};
}

/// Returns the PTX for a target.
std::string ptx_for(const KernelFile& file, const std::string& target, const fs::path& folder) {
  if (file.path.extension() != ".cu") {
    return emulation::read_ptx(file.path, emulation::kMaxPtxBytes);
  }
  std::vector<std::string> flags = file.flags;
  flags.push_back("-arch=" + target);
  for (const auto& [name, value] : file.macros) {
    flags.push_back(fmt::format("-D{}={}", name, value));
  }
  const fs::path ptx = folder / "kernels.ptx";
  compile_to_ptx(file.path, ptx, flags);
  return io::read_small_file(ptx, emulation::kMaxPtxBytes);
}

struct MachineCode {
  std::vector<std::byte> cubin;
  std::string log;
};

/// Assembles PTX with nvcc, which passes flags such as -maxrregcount on, or with ptxas. Without
/// either, the code is the PTX itself, which the driver compiles.
MachineCode assemble(const KernelFile& file, const std::string& ptx, const std::string& target,
                     const fs::path& folder) {
  const fs::path source = folder / "renamed.ptx";
  const fs::path cubin = folder / "kernels.cubin";
  write_source(source, ptx);
  std::vector<std::string> command;
  if (const std::string nvcc = find_program("nvcc"); !nvcc.empty()) {
    command = {nvcc, "-cubin", "--ptxas-options=-v", "-arch=" + target};
    command.insert(command.end(), file.flags.begin(), file.flags.end());
  } else if (const std::string ptxas = find_program("ptxas"); !ptxas.empty()) {
    command = {ptxas, "-v", "-arch=" + target};
  } else {
    const std::span bytes = std::as_bytes(std::span(ptx.c_str(), ptx.size() + 1));
    return {.cubin = {bytes.begin(), bytes.end()}, .log = ""};
  }
  command.insert(command.end(), {"-o", cubin.string(), source.string()});
  const ProcessResult result = run_process(command, {.max_seconds = kMaxAssembleSeconds});
  if (result.timed_out || result.exit_code != 0) {
    throw CompileError(result.timed_out
                           ? fmt::format("ptxas has not ended within {:.0f} s", kMaxAssembleSeconds)
                           : result.output + result.errors);
  }
  const std::string code = io::read_small_file(cubin, emulation::kMaxPtxBytes);
  const std::span bytes = std::as_bytes(std::span(code));
  return {.cubin = {bytes.begin(), bytes.end()}, .log = result.output + result.errors};
}

/// Returns the part of ptxas's log that is about one kernel.
std::string log_of(const std::string& log, const std::string& kernel) {
  constexpr std::string_view kBegin = "Compiling entry function '";
  const std::size_t begin = log.find(fmt::format("{}{}'", kBegin, kernel));
  return begin == std::string::npos
             ? ""
             : log.substr(begin, log.find(kBegin, begin + kBegin.size()) - begin);
}

}  // namespace

std::vector<FileKernel> add_file_kernels(const KernelFile& file,
                                         const std::vector<std::string>& names) {
  const TemporaryFolder folder;
  const bool is_source = file.path.extension() == ".cu";
  std::vector<std::string> targets = file.targets;
  if (!is_source) {
    targets = {target_of(ptx_for(file, "", folder.path()))};
  }
  std::vector<gpu::Target> rows;
  std::ranges::transform(targets, std::back_inserter(rows), parse_target);
  std::vector<FileKernel> added;
  std::vector<gpu::KernelInfo> infos(names.size());
  std::vector<gpu::KernelImage> images;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    std::string ptx = ptx_for(file, targets[row], folder.path());
    write_source(folder.path() / "found.ptx", ptx);
    const emulation::Module module(folder.path() / "found.ptx", emulation::kMaxMemory,
                                   file.path.string());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const emu::KernelHandle& handle = module.find(names[i]);
      if (row == 0) {
        infos[i].name = kept(new_name(handle.name));
        infos[i].source = kept(file.path.string());
        added.push_back({.handle = handle});
        added.back().handle.program = nullptr;
      }
      infos[i].targets.at(row) = rows[row];
      ptx = renamed(ptx, handle.name, infos[i].name);
    }
    const MachineCode code = assemble(file, ptx, targets[row], folder.path());
    const std::vector<std::byte>& cubin = kept(code.cubin);
    const std::span text = std::as_bytes(std::span(kept(ptx)));
    for (const gpu::KernelInfo& info : infos) {
      const gpu::Target target = info.targets.at(row);
      gpu::KernelImage image{.name = info.name,
                             .source = info.source,
                             .arch = target.arch,
                             .code = target.code,
                             .packed = cubin,
                             .unpacked_bytes = cubin.size(),
                             .ptx = {.packed = text, .bytes = text.size()}};
      if (!code.log.empty()) {
        read_resources(log_of(code.log, std::string(info.name)), image);
      }
      images.push_back(image);
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    added[i].id = gpu::add_kernel(infos[i]);
    for (std::size_t row = 0; row < targets.size(); ++row) {
      images[row * names.size() + i].kernel = added[i].id;
    }
  }
  gpu::add_kernel_images(images);
  return added;
}

}  // namespace fovea::lab
