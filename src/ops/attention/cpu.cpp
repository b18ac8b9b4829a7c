// Attention on the CPU.
#include "core/divide_up.hpp"
#include "cpu/attend.hpp"
#include "cpu/cpu_executor.hpp"
#include "cpu/host_threads.hpp"
#include "ops/attention/op.hpp"

namespace fovea::ops {
namespace {

// Queries of a head that a thread works on at once where threads share an image.
constexpr std::int64_t kMaxQueries = 256;
// The same of tensors that somebody else holds: their scores stay in the nearest caches.
constexpr std::int64_t kQueryBlock = 64;

}  // namespace

void run(const AttentionCall& call, cpu::CpuExecutor& executor) {
  // Heads are shared out, by many threads in parts.
  const std::int64_t queries = call.problem.queries;
  const std::int64_t parts = executor.threads() == 1 ? 1 : divide_up(queries, kMaxQueries);
  const cpu::AttentionTasks tasks(call.problem, call.operands, divide_up(queries, parts));
  executor.share(tasks.count(), [&](std::int64_t task) { tasks.run(task, executor.worker()); });
}

void run(const AttentionProblem& problem, const AttentionOperands& operands,
         const cpu::HostThreads& threads) {
  const cpu::AttentionTasks tasks(problem, operands, kQueryBlock);
  threads.share(tasks.count(),
                [&](std::int64_t task) { tasks.run(task, cpu::HostThreads::worker()); });
}

}  // namespace fovea::ops
