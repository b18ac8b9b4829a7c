// Compiles with NVRTC, through its C API, or with nvcc, as a child process on a folder of sources.
#include "lab/system/compiler.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/error.hpp"
#include "gpu/nvidia/library.hpp"
#include "lab/system/process.hpp"

namespace fovea::lab {
namespace {

namespace fs = std::filesystem;

/// Maximal length of a compiler's output in a message.
constexpr std::size_t kMaxMessageChars = 3000;
// Prevents ptxas from fusing multiplications and additions, as in the build (cmake/Kernels.cmake).
constexpr const char* kNoFmaContraction = "--ptxas-options=-fmad=false";

// Replacements for the standard headers that the kernels include, since NVRTC has none.
const std::map<std::string, std::string>& standard_headers() {
  static const std::map<std::string, std::string> headers = {
      {"cstdint",
       "#pragma once\n"
       "namespace std {\n"
       "using int8_t = signed char;\nusing int16_t = short;\nusing int32_t = int;\n"
       "using int64_t = long;\nusing uint8_t = unsigned char;\nusing uint16_t = unsigned short;\n"
       "using uint32_t = unsigned int;\nusing uint64_t = unsigned long;\n"
       "using uintptr_t = unsigned long;\n}\n"},
      {"cstddef",
       "#pragma once\nnamespace std {\nusing size_t = decltype(sizeof(0));\n"
       "enum class byte : unsigned char {};\n}\n"},
      {"array",
       "#pragma once\n#include <cstddef>\nnamespace std {\ntemplate <typename T, size_t kCount>\n"
       "struct array {\n  T elements[kCount];\n"
       "  constexpr T& operator[](size_t i) { return elements[i]; }\n"
       "  constexpr const T& operator[](size_t i) const { return elements[i]; }\n};\n}\n"},
      {"type_traits",
       "#pragma once\nnamespace std {\n"
       "template <bool kFirst, typename A, typename B>\nstruct conditional { using type = A; };\n"
       "template <typename A, typename B>\nstruct conditional<false, A, B> { using type = B; };\n"
       "template <bool kFirst, typename A, typename B>\n"
       "using conditional_t = typename conditional<kFirst, A, B>::type;\n}\n"},
      {"cmath", "#pragma once\n#define INFINITY __builtin_huge_valf()\n"},
  };
  return headers;
}

// Host functions that nvcc provides and NVRTC does not.
constexpr std::string_view kPrelude =
    "#define __builtin_memcpy memcpy\n"
    "constexpr float __builtin_huge_valf() { return __builtin_bit_cast(float, 0x7f800000u); }\n"
    "#line 1 \"unit.cu\"\n";

std::string shortened(const std::string& words) {
  return words.size() <= kMaxMessageChars ? words : words.substr(0, kMaxMessageChars) + " ...";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns the folder that contains cuda_fp16.h, near the library or in CUDA's folders; empty if
/// there is none.
std::string cuda_headers(const std::string& library) {
  std::vector<fs::path> places;
  const fs::path folder = fs::path(library).parent_path();
  if (!folder.empty()) {  // empty if the loader found the library by its bare name
    for (const char* const up : {"../include", "../../../include", "../../include"}) {
      places.push_back(folder / up);
    }
  }
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const home = std::getenv(variable); home != nullptr && *home != '\0') {
      places.push_back(fs::path(home) / "include");
    }
  }
  places.emplace_back("/usr/local/cuda/include");
  if (const std::string nvcc = find_program("nvcc"); !nvcc.empty()) {
    places.push_back(fs::path(nvcc).parent_path() / "../include");
  }
  std::error_code ignored;
  for (const fs::path& place : places) {
    if (fs::exists(place / "cuda_fp16.h", ignored)) {
      return fs::canonical(place, ignored).string();
    }
  }
  return {};
}

/// Opens NVRTC from the system, from build/cuda (where scripts/setup puts CUDA's tools), or from
/// Python's packages.
gpu::Library open_nvrtc() {
  std::error_code ignored;
  const fs::path build =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path().parent_path();
  const std::string beside = (build / "cuda/lib/libnvrtc.so.13").string();
  const std::array<std::string_view, 4> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                                 beside};
  const std::array<std::string_view, 2> packages = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};
  gpu::Library library = gpu::Library::open("NVRTC", "FOVEA_NVRTC", names, packages);
  // NVRTC opens its builtins library by the bare name, which the loader only finds if the library
  // is already open.
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(library.path()).parent_path(), ignored)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so")) {
      (void)dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
  return library;
}

struct Compiled {
  std::vector<std::byte> cubin;
  std::string ptx;
  std::string log;
};

/// NVIDIA's run-time compiler. Its functions return 0 on success.
class Nvrtc {
 public:
  Nvrtc() : library_(open_nvrtc()), headers_(cuda_headers(library_.path())) {}

  [[nodiscard]] std::string name() const {
    return fmt::format("NVRTC {}.{}", version_number() / 100, version_number() % 100);
  }

  [[nodiscard]] Compiled compile(const KernelSources& sources, const std::string& unit,
                                 const CompileOptions& options) const {
    std::vector<const char*> names;
    std::vector<const char*> texts;
    for (const auto* const files : {&sources.files(), &standard_headers()}) {
      for (const auto& [name, text] : *files) {
        names.push_back(name.c_str());
        texts.push_back(text.c_str());
      }
    }
    const std::string source = std::string(kPrelude) + unit;
    Program program{*this};
    if (create_(&program.handle, source.c_str(), "unit.cu", static_cast<int>(names.size()),
                texts.data(), names.data()) != 0) {
      fail("NVRTC cannot create a program for a kernel; memory may be exhausted");
    }
    const std::string architecture = "--gpu-architecture=" + options.target;
    const std::string include = "-I" + headers_;
    std::vector<const char*> flags = {architecture.c_str(), "-std=c++20",      "--ptxas-options=-v",
                                      kNoFmaContraction,    "-default-device", "-lineinfo"};
    if (!headers_.empty()) {
      flags.push_back(include.c_str());
    }
    if (version_number() >= 1209) {
      flags.push_back("--no-cache");  // ptxas prints nothing for cached results
    }
    const int status = compile_(program.handle, static_cast<int>(flags.size()), flags.data());
    std::size_t size = 0;
    (void)log_size_(program.handle, &size);
    std::string log(size, '\0');
    (void)log_(program.handle, log.data());
    log.resize(log.find_last_not_of('\0') + 1);
    if (status != 0) {
      throw CompileError(shortened(log.empty() ? fmt::format("NVRTC: error {}", status) : log));
    }
    (void)cubin_size_(program.handle, &size);
    std::vector<std::byte> cubin(size);
    if (size == 0 || cubin_(program.handle, reinterpret_cast<char*>(cubin.data())) != 0) {
      fail("NVRTC returned no machine code for {}", options.target);
    }
    (void)ptx_size_(program.handle, &size);
    std::string ptx(size, '\0');
    if (size == 0 || ptx_(program.handle, ptx.data()) != 0) {
      fail("NVRTC returned no PTX for {}", options.target);
    }
    ptx.resize(ptx.find_last_not_of('\0') + 1);
    return {.cubin = std::move(cubin), .ptx = std::move(ptx), .log = std::move(log)};
  }

 private:
  /// Returns the version: 1209 for 12.9.
  [[nodiscard]] int version_number() const {
    int major = 0;
    int minor = 0;
    (void)version_(&major, &minor);
    return major * 100 + minor;
  }

  struct Program {
    explicit Program(const Nvrtc& owner) : nvrtc(owner) {}
    ~Program() {
      if (handle != nullptr) {
        (void)nvrtc.destroy_(&handle);
      }
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    const Nvrtc& nvrtc;
    void* handle = nullptr;
  };

  gpu::Library library_;
  std::string headers_;
  int (*version_)(int*, int*) = library_.function("nvrtcVersion");
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = library_.function("nvrtcCreateProgram");
  int (*destroy_)(void**) = library_.function("nvrtcDestroyProgram");
  int (*compile_)(void*, int, const char* const*) = library_.function("nvrtcCompileProgram");
  int (*log_size_)(void*, std::size_t*) = library_.function("nvrtcGetProgramLogSize");
  int (*log_)(void*, char*) = library_.function("nvrtcGetProgramLog");
  int (*cubin_size_)(void*, std::size_t*) = library_.function("nvrtcGetCUBINSize");
  int (*cubin_)(void*, char*) = library_.function("nvrtcGetCUBIN");
  int (*ptx_size_)(void*, std::size_t*) = library_.function("nvrtcGetPTXSize");
  int (*ptx_)(void*, char*) = library_.function("nvrtcGetPTX");
};

/// Returns NVRTC. If it cannot be opened, returns null and sets `why` to the reason.
const Nvrtc* nvrtc(std::string& why) {
  static std::string reason;
  static const std::optional<Nvrtc> opened = []() -> std::optional<Nvrtc> {
    try {
      return std::optional<Nvrtc>(std::in_place);
    } catch (const Error& error) {
      reason = error.what();
      return std::nullopt;
    }
  }();
  why = reason;
  return opened.has_value() ? &*opened : nullptr;
}

/// Returns the program with its version: "nvcc 13.0".
std::string with_version(const fs::path& program) {
  const std::string text = run_process({program.string(), "--version"}).output;
  const std::string name = program.filename().string();
  std::smatch match;
  return std::regex_search(text, match, std::regex("release ([0-9.]+)"))
             ? name + " " + match[1].str()
             : name;
}

std::vector<std::byte> read_cubin(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> code(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(code.data()), static_cast<std::streamsize>(code.size()));
  if (!file || code.empty()) {
    throw CompileError(fmt::format("the compiler wrote no machine code to {}", path.string()));
  }
  return code;
}

/// Returns a text without the path of a temporary folder, which differs between runs.
std::string without(const std::string& path, std::string text) {
  for (std::size_t begin = text.find(path); begin != std::string::npos;
       begin = text.find(path, begin)) {
    text.erase(begin, path.size());
  }
  return text;
}

Compiled compile_with_nvcc(const std::string& nvcc, const KernelSources& sources,
                           const std::string& unit, const CompileOptions& options) {
  const TemporaryFolder folder;
  sources.write(folder.path());
  write_source(folder.path() / "unit.cu", unit);
  const fs::path cubin = folder.path() / "unit.cubin";
  const std::vector<std::string> command = {nvcc,
                                            "-lineinfo",
                                            "--keep",
                                            "--keep-dir=" + folder.path().string(),
                                            "-std=c++20",
                                            "-O3",
                                            "-cubin",
                                            "--ptxas-options=-v",
                                            kNoFmaContraction,
                                            "-arch=" + options.target,
                                            "-I" + folder.path().string(),
                                            "-o",
                                            cubin.string(),
                                            (folder.path() / "unit.cu").string()};
  const ProcessResult result = run_process(command, {.max_seconds = options.max_seconds});
  const std::string path = folder.path().string() + "/";
  std::string log = without(path, result.output + result.errors);
  if (result.timed_out) {
    throw CompileError(
        fmt::format("nvcc exceeded its time limit of {:.0f} s", options.max_seconds));
  }
  if (result.exit_code != 0) {
    throw CompileError(shortened(log));
  }
  return {.cubin = read_cubin(cubin),
          .ptx = without(path, read_source((folder.path() / "unit.ptx").string())),
          .log = std::move(log)};
}

}  // namespace

void read_resources(const std::string& log, gpu::KernelImage& image) {
  const auto largest = [&](const char* pattern) {
    const std::regex expression(pattern);
    int largest_count = 0;
    for (auto match = std::sregex_iterator(log.begin(), log.end(), expression);
         match != std::sregex_iterator(); ++match) {
      largest_count = std::max(largest_count, std::stoi((*match)[1].str()));
    }
    return largest_count;
  };
  image.registers = largest("Used ([0-9]+) registers");
  image.shared_bytes = largest("([0-9]+) bytes smem");
  image.stack_bytes = largest("([0-9]+) bytes stack frame");
  image.spill_store_bytes = largest("([0-9]+) bytes spill stores");
  image.spill_load_bytes = largest("([0-9]+) bytes spill loads");
  if (image.registers == 0) {
    throw CompileError(fmt::format("the compiler did not report the registers of {}", image.name));
  }
}

std::string compile_target(gpu::KernelId kernel, int arch) {
  const gpu::KernelInfo& info = gpu::info_of(kernel);
  const gpu::Target* best = nullptr;
  bool has_ptx = false;
  for (const gpu::Target& target : info.targets) {
    if (target.arch == 0 || !gpu::runs_on(target, arch)) {
      continue;
    }
    if (target.code == gpu::Code::kPtx) {
      has_ptx = true;
    } else if (best == nullptr || target.arch > best->arch) {
      best = &target;
    }
  }
  if (best != nullptr) {
    return fmt::format("sm_{}{}", best->arch,
                       best->code == gpu::Code::kOneArch  ? "a"
                       : best->code == gpu::Code::kFamily ? "f"
                                                          : "");
  }
  if (!has_ptx) {
    fail("{} does not support GPUs with sm_{}", info.name, arch);
  }
  return fmt::format("sm_{}", arch);  // the target for which a driver compiles PTX
}

AssembledUnit assemble_with_lines(const gpu::KernelImage& image) {
  const std::string ptxas = find_program("ptxas");
  if (ptxas.empty()) {
    fail(
        "ptxas is neither on the PATH nor in build/cuda/bin, where scripts/setup --test puts it, "
        "nor in $CUDA_HOME/bin");
  }
  const TemporaryFolder folder;
  write_source(folder.path() / "unit.ptx", gpu::kernel_ptx(image));
  const fs::path cubin = folder.path() / "unit.cubin";
  const ProcessResult result = run_process(
      {ptxas, "-lineinfo", "-fmad=false", "-arch=" + compile_target(image.kernel, image.arch), "-o",
       cubin.string(), (folder.path() / "unit.ptx").string()});
  if (result.exit_code != 0) {
    throw CompileError(shortened(result.output + result.errors));
  }
  return {.cubin = read_cubin(cubin), .assembler = with_version(ptxas)};
}

CompiledKernel compile(const KernelSources& sources, gpu::KernelId kernel,
                       const ParameterValues& values, const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const gpu::KernelInfo& info = gpu::info_of(kernel);
  const std::string unit = sources.unit(info.name, values);
  CompiledKernel compiled;
  Compiled output;
  std::string why_not;
  const Nvrtc* const runtime = options.compiler == CompilerKind::kNvcc ? nullptr : nvrtc(why_not);
  if (runtime != nullptr) {
    compiled.compiler = runtime->name();
    output = runtime->compile(sources, unit, options);
  } else if (const std::string nvcc = find_program("nvcc");
             !nvcc.empty() && options.compiler != CompilerKind::kNvrtc) {
    compiled.compiler = with_version(nvcc);
    output = compile_with_nvcc(nvcc, sources, unit, options);
  } else {
    const std::string nvcc_is = "nvcc is neither on the PATH nor in CUDA's folders";
    fail("no compiler for kernels was found: {}", options.compiler == CompilerKind::kNvrtc ? why_not
                                                  : options.compiler == CompilerKind::kNvcc
                                                      ? nvcc_is
                                                      : why_not + "; " + nvcc_is);
  }
  compiled.cubin = std::move(output.cubin);
  compiled.ptx = std::move(output.ptx);
  gpu::KernelImage& image = compiled.image;
  image.kernel = kernel;
  image.name = info.name;
  image.source = info.source;
  image.arch = std::stoi(options.target.substr(options.target.find('_') + 1));
  image.code = options.target.ends_with('a')   ? gpu::Code::kOneArch
               : options.target.ends_with('f') ? gpu::Code::kFamily
                                               : gpu::Code::kMachine;
  image.packed = compiled.cubin;
  image.unpacked_bytes = compiled.cubin.size();
  image.ptx = {.packed = std::as_bytes(std::span(compiled.ptx)), .bytes = compiled.ptx.size()};
  read_resources(output.log, image);
  compiled.seconds = seconds_since(start);
  return compiled;
}

}  // namespace fovea::lab
