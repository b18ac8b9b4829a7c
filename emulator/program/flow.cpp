// Reconvergence: finds the operations at which lanes that diverge at a branch join again.
#include <algorithm>
#include <vector>

#include "emulator/program/decoder.hpp"

namespace emu {
namespace {

// Post-dominators of basic blocks, after Cooper, Harvey and Kennedy, "A Simple, Fast Dominance
// Algorithm" (2001), on the reversed graph. The last block is the exit, which has no operations.
class PostDominators {
 public:
  PostDominators(std::span<const Op> ops, std::span<const std::vector<std::int32_t>> branch_targets)
      : ops_(ops), branch_targets_(branch_targets) {
    find_blocks();
    find_edges();
    order_blocks();
    solve();
  }

  // Returns the first operation of the block that post-dominates the block of `op`; -1 for the
  // exit.
  [[nodiscard]] int find_join(std::size_t op) const {
    const int block = parents_[static_cast<std::size_t>(block_numbers_[op])];
    return block < 0 || block == exit() ? -1 : first_ops_[static_cast<std::size_t>(block)];
  }

 private:
  [[nodiscard]] int exit() const { return static_cast<int>(first_ops_.size()); }

  static bool ends_block(const Op& op) { return op.flow != Flow::kNext && op.flow != Flow::kCall; }

  // Calls use(target) for each target of a branch.
  template <typename Use>
  void for_each_target(const Op& op, Use&& use) const {
    if (op.flow == Flow::kBranch) {
      use(static_cast<std::size_t>(op.target));
    } else if (op.flow == Flow::kIndirectBranch) {
      for (const std::int32_t target : branch_targets_[static_cast<std::size_t>(op.target)]) {
        use(static_cast<std::size_t>(target));
      }
    }
  }

  void find_blocks() {
    std::vector<bool> begins_block(ops_.size() + 1, false);
    begins_block[0] = true;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (ends_block(ops_[i])) {
        begins_block[i + 1] = true;
      }
      for_each_target(ops_[i], [&](std::size_t target) { begins_block[target] = true; });
    }
    block_numbers_.resize(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (begins_block[i]) {
        first_ops_.push_back(static_cast<int>(i));
      }
      block_numbers_[i] = static_cast<int>(first_ops_.size()) - 1;
    }
  }

  void find_edges() {
    successors_.resize(first_ops_.size() + 1);
    predecessors_.resize(first_ops_.size() + 1);
    for (std::size_t block = 0; block < first_ops_.size(); ++block) {
      const std::size_t next = block + 1 < first_ops_.size()
                                   ? static_cast<std::size_t>(first_ops_[block + 1])
                                   : ops_.size();
      const Op& last = ops_[next - 1];
      for_each_target(last, [&](std::size_t target) { add_edge(block, target); });
      if (last.flow == Flow::kExit || last.flow == Flow::kReturn) {
        add_edge(block, ops_.size());
      }
      if (!ends_block(last) || last.guard != kNoSlot) {
        add_edge(block, next);
      }
    }
  }

  void add_edge(std::size_t block, std::size_t op) {
    const int target = op < ops_.size() ? block_numbers_[op] : exit();
    successors_[block].push_back(target);
    predecessors_[static_cast<std::size_t>(target)].push_back(static_cast<int>(block));
  }

  // Orders blocks in postorder of the reversed graph, from the exit.
  void order_blocks() {
    numbers_.assign(first_ops_.size() + 1, -1);
    std::vector<std::pair<int, std::size_t>> stack{{exit(), 0}};
    std::vector<bool> is_visited(first_ops_.size() + 1, false);
    is_visited[static_cast<std::size_t>(exit())] = true;
    while (!stack.empty()) {
      auto& [block, next] = stack.back();
      const auto& edges = predecessors_[static_cast<std::size_t>(block)];
      if (next < edges.size()) {
        const int target = edges[next++];
        if (!is_visited[static_cast<std::size_t>(target)]) {
          is_visited[static_cast<std::size_t>(target)] = true;
          stack.emplace_back(target, 0);
        }
      } else {
        numbers_[static_cast<std::size_t>(block)] = static_cast<int>(order_.size());
        order_.push_back(block);
        stack.pop_back();
      }
    }
    std::ranges::reverse(order_);
  }

  void solve() {
    parents_.assign(first_ops_.size() + 1, -1);
    parents_[static_cast<std::size_t>(exit())] = exit();
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (const int block : order_) {
        if (block == exit()) {
          continue;
        }
        int parent = -1;
        for (const int next : successors_[static_cast<std::size_t>(block)]) {
          if (parents_[static_cast<std::size_t>(next)] >= 0) {
            parent = parent < 0 ? next : common_dominator(parent, next);
          }
        }
        if (parents_[static_cast<std::size_t>(block)] != parent) {
          parents_[static_cast<std::size_t>(block)] = parent;
          is_changed = true;
        }
      }
    }
  }

  [[nodiscard]] int common_dominator(int a, int b) const {
    const auto number = [&](int block) { return numbers_[static_cast<std::size_t>(block)]; };
    while (a != b) {
      while (number(a) < number(b)) {
        a = parents_[static_cast<std::size_t>(a)];
      }
      while (number(b) < number(a)) {
        b = parents_[static_cast<std::size_t>(b)];
      }
    }
    return a;
  }

  std::span<const Op> ops_;
  std::span<const std::vector<std::int32_t>> branch_targets_;
  std::vector<int> first_ops_;      // first operation of each block
  std::vector<int> block_numbers_;  // block of each operation
  std::vector<std::vector<int>> successors_;
  std::vector<std::vector<int>> predecessors_;
  std::vector<int> order_;
  std::vector<int> numbers_;
  std::vector<int>
      parents_;  // immediate post-dominators; -1: the exit cannot be reached from the block
};

}  // namespace

void find_joins(std::span<Op> ops, std::span<const std::vector<std::int32_t>> branch_targets) {
  if (ops.empty()) {
    return;
  }
  const PostDominators dominators(ops, branch_targets);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].flow == Flow::kBranch || ops[i].flow == Flow::kIndirectBranch) {
      ops[i].join = dominators.find_join(i);
    }
  }
}

}  // namespace emu
