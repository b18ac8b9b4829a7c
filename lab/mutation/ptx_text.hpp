// PTX as text: the instructions of one kernel, with their places in it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::mutation {

/// An instruction. The views are of the text that it was found in.
struct Statement {
  std::string_view text{};   // from its guard or opcode to the semicolon, with it
  std::string_view guard{};  // "@!%p1"; empty: none
  std::string_view opcode{};
  std::vector<std::string_view> operands{};  // without the space around them
  int line = 0;                              // of the PTX, where the opcode is
  std::string source{};                      // "file.cuh:12", where the compiler says it

  /// "mbarrier.arrive" begins "mbarrier.arrive.shared::cta.b64", and not "mbarrier.arrive_drop".
  [[nodiscard]] bool is(std::string_view beginning) const;
};

/// Statements of the kernel, in their order; declarations and labels are none. Throws fovea::Error
/// when the text has no such kernel.
[[nodiscard]] std::vector<Statement> statements_of(std::string_view ptx, std::string_view kernel);

/// The text with nothing in the place of kernels that are not named; all lines have the numbers
/// that they had.
[[nodiscard]] std::string with_only(std::string_view ptx,
                                    const std::set<std::string, std::less<>>& kernels);

}  // namespace fovea::mutation
