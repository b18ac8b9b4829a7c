// Completion scripts for shells.
#pragma once

#include <string>

#include "cli/describe.hpp"

namespace fovea::cli {

[[nodiscard]] std::string bash_completion(const CommandText& program);
[[nodiscard]] std::string zsh_completion(const CommandText& program);
[[nodiscard]] std::string fish_completion(const CommandText& program);

}  // namespace fovea::cli
