// What a command reads, as far as its options name it: an output must not be among it.
#pragma once

#include <optional>
#include <string>

#include <CLI/App.hpp>
#include <sys/stat.h>

#include "io/output_place.hpp"

namespace fovea::cli {

/// The value of the option that names this very file, or a list of its name (@FILE), be it through
/// links; nothing when there is none.
[[nodiscard]] std::optional<std::string> named_input(const CLI::App& command,
                                                     const struct stat& file);

/// The value under which a file is read that no option names: a model, an output or a folder of
/// photos that holds it, or a list that names it.
[[nodiscard]] std::optional<std::string> input_among_others(const CLI::App& command,
                                                            const io::OutputPlace& place);

}  // namespace fovea::cli
