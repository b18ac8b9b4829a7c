// The version and build configuration of Fovea.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

struct BuildInfo {
  std::string version;          // "0.1.0"
  std::string commit;           // "d202b96", "d202b96-modified", or "unknown"
  std::string build_type;       // "Release"
  std::string instruction_set;  // the highest one used on this CPU: "avx512_bf16"
  /// Names and versions of the libraries used for computing and decoding.
  std::vector<std::pair<std::string, std::string>> libraries;
};

/// Throws fovea::Error when FOVEA_CPU_ISA names no instruction set.
[[nodiscard]] BuildInfo build_info();

}  // namespace fovea
