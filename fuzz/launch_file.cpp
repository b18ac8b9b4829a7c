// Fuzzes launch files: the text before the line "//" must be rejected with fovea::Error, or launch
// the PTX after that line, which is arbitrary as well.
#include "lab/emulation/launch_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fovea/error.hpp"
#include "io/descriptor.hpp"
#include "lab/emulation/emulation.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMaxMemory = std::size_t{128} << 20U;
  constexpr std::string_view kSeparator = "\n//\n";
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = all.find(kSeparator);
  const std::string_view ptx = end == std::string_view::npos ? "" : all.substr(end);
  try {
    fovea::emulation::LaunchFile file = fovea::emulation::parse_launch_file(
        all.substr(0, end), "launch.json", "/dev/null", {.max_memory = kMaxMemory});
    const fovea::io::Descriptor module(memfd_create("ptx", MFD_CLOEXEC));
    if (write(module.get(), ptx.data(), ptx.size()) != static_cast<ssize_t>(ptx.size())) {
      return 0;
    }
    const fovea::emulation::Emulation emulation(fmt::format("/proc/self/fd/{}", module.get()),
                                                std::move(file), "");
    (void)emulation.run({.count = 2, .run = {.max_steps = 5000}});
  } catch (const fovea::Error&) {
  }
  return 0;
}
