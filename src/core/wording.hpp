// How messages write an option or a command, so that their reader can use it as it stands.
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

/// Sets the wording of all messages of this process, which is the program's by default. Whoever
/// brings the messages to people calls it once, before anything else.
void set_wording(Wording wording) noexcept;

/// An option, and the value to give it when there is one.
[[nodiscard]] std::string option_words(std::string_view name, std::string_view value = {});

/// "fp32, bf16 or int8". `conjunction`: "or", "and".
[[nodiscard]] std::string listed(std::span<const std::string> words, std::string_view conjunction);

/// How features of patches are asked for.
[[nodiscard]] std::string_view feature_words();

/// The command that fetches a model.
[[nodiscard]] std::string pull_words(std::string_view id, std::string_view revision);

/// "shards 3/8 and 5/8 are missing"; "" when there are none. `all`: how many are missing, of which
/// `numbers` may be the first ones alone.
[[nodiscard]] std::string missing_shards_words(std::span<const std::uint64_t> numbers,
                                               std::uint64_t all, std::uint64_t count);

}  // namespace fovea
