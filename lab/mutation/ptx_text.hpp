// Parses PTX: the instructions of one kernel with their positions in the text.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::mutation {

/// An instruction. The views refer to the text that was parsed.
struct Statement {
  std::string_view text{};   // from its guard or opcode to the semicolon, inclusive
  std::string_view guard{};  // "@!%p1"; empty if there is none
  std::string_view opcode{};
  std::vector<std::string_view> operands{};  // without surrounding spaces
  int line = 0;                              // line of the opcode in the PTX
  std::string source{};                      // "file.cuh:12", if the PTX has line information

  /// Returns whether the opcode is this instruction with any further modifiers: "mbarrier.arrive"
  /// matches "mbarrier.arrive.shared::cta.b64", but not "mbarrier.arrive_drop".
  [[nodiscard]] bool is(std::string_view beginning) const;
};

/// Returns the kernel's statements in order, without declarations and labels. Throws fovea::Error
/// if the text has no such kernel.
[[nodiscard]] std::vector<Statement> parse_statements(std::string_view ptx,
                                                      std::string_view kernel);

/// Returns the text with only these kernels and unchanged line numbers.
[[nodiscard]] std::string with_only(std::string_view ptx,
                                    const std::set<std::string, std::less<>>& kernels);

}  // namespace fovea::mutation
