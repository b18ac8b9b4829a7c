// How messages write options and commands: in the syntax of the language that the user calls Fovea
// from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fovea {

enum class Wording : std::uint8_t {
  kProgram,  ///< "--device cpu", "fovea pull NAME"
  kPython,   ///< device="cpu", fovea.pull("NAME")
  kCpp,      ///< device = "cpu", precision = Precision::kBf16, fovea::pull({.id = "NAME"})
  kC,        ///< device "cpu", precision "bf16", fovea_pull("NAME", NULL, ...)
};

/// Sets the wording of all messages of this process; the default is kProgram. Bindings call it
/// once, before anything else.
void set_wording(Wording wording) noexcept;

/// Returns an option, with its value unless that is empty.
[[nodiscard]] std::string option_words(std::string_view name, std::string_view value = {});

/// Joins words into a list such as "fp32, bf16 or int8". `conjunction`: "or", "and".
[[nodiscard]] std::string listed(std::span<const std::string> words, std::string_view conjunction);

/// Returns the options or arguments that request features of patches.
[[nodiscard]] std::string_view feature_words();

/// Returns the command that downloads a model.
[[nodiscard]] std::string pull_words(std::string_view id, std::string_view revision);

/// Returns, for example, "shards 3/8 and 5/8 are missing"; "" when none is missing. `total` is how
/// many are missing; `numbers` may be only the first ones.
[[nodiscard]] std::string missing_shards_words(std::span<const std::uint64_t> numbers,
                                               std::uint64_t total, std::uint64_t count);

}  // namespace fovea
