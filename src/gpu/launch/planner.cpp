#include "gpu/launch/planner.hpp"

namespace fovea::gpu {

GemmChoice Planner::gemm(const GemmProblem& problem) {
  const std::lock_guard lock(mutex_);
  return gemms_.get(problem, [&] { return choose_gemm(problem, device_, record_); });
}

std::string Planner::news(const std::string& notice) const {
  return notice.empty() || !record_.is_news() ? std::string() : notice;
}

AttentionChoice Planner::attention(const ops::AttentionProblem& problem,
                                   std::optional<AttentionLevel> level) {
  if (!level.has_value()) {
    level = forced_attention_level();  // read each time, since the environment may change
  }
  const std::lock_guard lock(mutex_);
  return attentions_.get({problem, level},
                         [&] { return choose_attention(problem, device_, level, record_); });
}

}  // namespace fovea::gpu
