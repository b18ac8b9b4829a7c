// Attention in tasks that threads share.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/product.hpp"
#include "cpu/worker.hpp"
#include "ops/attention/op.hpp"

namespace fovea::cpu {

/// Each task is some queries of one head of one sequence. Problem and operands must outlive it.
class AttentionTasks {
 public:
  /// Throws fovea::Error when sequences are longer than the problem says.
  AttentionTasks(const ops::AttentionProblem& problem, const ops::AttentionOperands& operands,
                 std::int64_t most_queries);

  [[nodiscard]] std::int64_t count() const { return count_; }
  void run(std::int64_t task, Worker& worker) const;

 private:
  /// Where its first rows lie, in elements from the operands' addresses.
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
    std::int64_t first = 0;    // query
    std::int64_t queries = 0;  // from there on
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
  std::int64_t most_queries_;
  std::vector<Sequence> sequences_;
  std::int64_t count_ = 0;
};

}  // namespace fovea::cpu
