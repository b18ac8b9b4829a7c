#include "gpu/launch/notes.hpp"

#include <fmt/format.h>

namespace fovea::gpu {

void Notes::add(const GemmProblem& problem, const std::string& why, const DeviceInfo& device) {
  const GemmProblem ordinary{
      .m = 128, .n = 128, .k = 128, .a = problem.a, .b = problem.b, .output = problem.output};
  GemmProblem kind = problem;
  kind.m = 1;
  if (added_.insert(to_string(kind)).second && can_run(ordinary, device)) {
    add(fmt::format("cuBLASLt computes {} ({})", to_string(problem), why));
  }
}

void Notes::add(const std::string& text) {
  if (!text.empty() && added_.insert(text).second) {
    text_ += (text_.empty() ? "" : "; ") + text;
  }
}

}  // namespace fovea::gpu
