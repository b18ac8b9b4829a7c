// Attention, split into tasks for several threads.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/product.hpp"
#include "cpu/worker.hpp"
#include "ops/attention/op.hpp"

namespace fovea::cpu {

/// Each task computes some queries of one head of one sequence. Problem and operands must outlive
/// this object.
class AttentionTasks {
 public:
  /// `max_queries`: the maximum number of queries in a task. Throws fovea::Error when a sequence is
  /// longer than the problem's maximum.
  AttentionTasks(const ops::AttentionProblem& problem, const ops::AttentionOperands& operands,
                 std::int64_t max_queries);

  [[nodiscard]] std::int64_t count() const { return count_; }
  void run(std::int64_t task, Worker& worker) const;

 private:
  /// Offsets of a sequence's first rows, in elements from the operands' addresses.
  struct Sequence {
    std::int64_t q = 0;
    std::int64_t k = 0;
    std::int64_t v = 0;
    std::int64_t o = 0;
    std::int64_t queries = 0;
    std::int64_t keys = 0;
    std::int64_t first_task = 0;
  };
  /// Some queries of one head, against the first `keys` of its keys.
  struct Block {
    const Sequence& sequence;
    std::int64_t head = 0;
    std::int64_t first = 0;    // index of the first query
    std::int64_t queries = 0;  // number of queries
    std::int64_t keys = 0;
  };
  [[nodiscard]] Sequence sequence(std::int64_t index) const;
  [[nodiscard]] std::int64_t keys_seen(const Block& block, std::int64_t query) const;
  [[nodiscard]] Rows rows(Address base, std::int64_t offset, std::int64_t stride,
                          std::int64_t count, AlignedBuffer<float>& buffer) const;
  void attend(const Block& block, Worker& worker) const;
  void attend_tile(const TileKernel& kernel, const Rows& queries, const Block& block,
                   const Finish& finish, Worker& worker) const;

  const ops::AttentionProblem& problem_;
  const ops::AttentionOperands& operands_;
  std::int64_t max_queries_;
  std::vector<Sequence> sequences_;
  std::int64_t count_ = 0;
};

}  // namespace fovea::cpu
