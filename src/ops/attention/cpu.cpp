// Attention on the CPU.
#include "core/divide_up.hpp"
#include "cpu/attend.hpp"
#include "cpu/cpu_executor.hpp"
#include "cpu/host_threads.hpp"
#include "ops/attention/op.hpp"

namespace fovea::ops {
namespace {

// Queries of a head in one task where several threads share an image.
constexpr std::int64_t kMaxQueries = 256;
// The same for tensors of the caller: the scores of a task fit into the L2 cache.
constexpr std::int64_t kQueryBlock = 64;

}  // namespace

void run(const AttentionCall& call, cpu::CpuExecutor& executor) {
  // Heads are distributed over the threads; with many threads, the queries of a head are split as
  // well.
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
