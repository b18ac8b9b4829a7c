// What this build of Fovea is made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] fovea {

struct BuildInfo {
  std::string version;          // "0.1.0"
  std::string commit;           // "d202b96", "d202b96-modified", or "unknown"
  std::string build_type;       // "Release"
  std::string instruction_set;  // the highest one that is used on this CPU: "avx512_bf16"
  /// Names and versions of the libraries that compute and decode.
  std::vector<std::pair<std::string, std::string>> libraries;
};

/// Throws fovea::Error when FOVEA_CPU_ISA names no instruction set.
[[nodiscard]] BuildInfo build_info();

}  // namespace fovea
