// Builds the control-flow graph from branches, reconvergence points and calls; finds a kernel's
// roles.
#include "lab/code/control_flow.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "lab/code/instruction_kinds.hpp"

namespace fovea::lab {
namespace {

using Blocks = std::vector<bool>;  // a set of blocks, as a flag per block

/// Returns the target of a branch: the last hexadecimal number among its operands.
std::optional<std::size_t> branch_target(const Instruction& branch) {
  const std::size_t begin = branch.operands.rfind("0x");
  std::size_t target = 0;
  if (begin == std::string_view::npos ||
      std::from_chars(branch.operands.data() + begin + 2,
                      branch.operands.data() + branch.operands.size(), target, 16)
              .ec != std::errc()) {
    return std::nullopt;
  }
  return target;
}

/// Returns the barrier register: "B0" for the operands "B0, 0x3e0".
std::string_view barrier_register(const Instruction& instruction) {
  return instruction.operands.substr(0, instruction.operands.find(','));
}

constexpr std::array<std::string_view, 6> kIndirect = {"BRX",  "JMX", "BRXU",
                                                       "JMXU", "JMP", "RPCMOV"};
/// Returns whether the instruction is a barrier for all threads of the CTA or of the cluster.
bool is_block_barrier(const Instruction& instruction) {
  return instruction.is("UCGABAR_WAIT") ||
         (instruction.is("BAR.SYNC") && instruction.operands == "0x0") ||
         (instruction.is("BAR.RED") && instruction.operands.starts_with("0x0"));
}

/// Adds all blocks that are reachable from those in `reached`.
void follow(const std::vector<std::vector<std::size_t>>& next, Blocks& reached) {
  std::vector<std::size_t> open;
  for (std::size_t block = 0; block < reached.size(); ++block) {
    if (reached[block]) {
      open.push_back(block);
    }
  }
  while (!open.empty()) {
    const std::size_t block = open.back();
    open.pop_back();
    for (const std::size_t following : next[block]) {
      if (!reached[following]) {
        reached[following] = true;
        open.push_back(following);
      }
    }
  }
}

class FlowReader {
 public:
  explicit FlowReader(std::span<const Instruction> all) : all_(all) {
    Blocks starts(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::ranges::any_of(kIndirect, [&](auto name) { return all[i].is(name); })) {
        fail("cannot follow {} at {:#x}: its target is in a register", all[i].name, all[i].address);
      }
      for (const std::string_view name : {"BRA", "CALL", "BSSY"}) {
        if (all[i].is(name)) {
          if (const auto to = place(branch_target(all[i]))) {
            starts[*to] = true;
          }
        }
      }
      if (ends_block(all[i]) && i + 1 < all.size()) {
        starts[i + 1] = true;
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == 0 || starts[i]) {
        blocks_.push_back({.first = i, .last = i});
      }
      blocks_.back().last = i + 1;
      block_of_.push_back(blocks_.size() - 1);
    }
    for (BasicBlock& block : blocks_) {
      link(block);
    }
    link_reconvergence();
  }

  [[nodiscard]] std::vector<BasicBlock> blocks() && { return std::move(blocks_); }

 private:
  static bool ends_block(const Instruction& instruction) {
    return instruction.is("BRA") || instruction.is("EXIT") || instruction.is("RET") ||
           instruction.is("BSYNC") || instruction.is("KILL");
  }

  [[nodiscard]] std::optional<std::size_t> place(std::optional<std::size_t> address) const {
    const auto match =
        std::ranges::lower_bound(all_, address.value_or(0), {}, &Instruction::address);
    return !address.has_value() || match == all_.end() || match->address != *address
               ? std::nullopt
               : std::optional(static_cast<std::size_t>(match - all_.begin()));
  }

  void link(BasicBlock& block) {
    for (std::size_t i = block.first; i < block.last; ++i) {
      if (all_[i].is("CALL")) {
        if (const auto to = place(branch_target(all_[i]))) {
          block.calls.push_back(block_of_[*to]);
        }
      }
    }
    const Instruction& last = all_[block.last - 1];
    bool falls_through = !last.predicate.empty() || !ends_block(last);
    if (last.is("BRA")) {
      const auto to = place(branch_target(last));
      if (!to.has_value()) {
        fail("the branch at {:#x} leads out of the kernel", last.address);
      }
      block.next.push_back(block_of_[*to]);
      // The condition may also be an operand, as in BRA.DIV UR4, 0x640.
      falls_through = falls_through || last.operands.find(',') != std::string_view::npos;
    }
    if (falls_through && block.last < all_.size()) {
      block.next.push_back(block_of_[block.last]);
    }
  }

  /// Links each BSYNC, at which the threads of a warp wait for each other, to the point of
  /// reconvergence that its BSSY names.
  void link_reconvergence() {
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < all_.size(); ++i) {
        if (all_[i].is("BSSY")) {
          grown = link_waits(i) || grown;
        }
      }
    }
    for (BasicBlock& block : blocks_) {
      if (all_[block.last - 1].is("BSYNC") && block.next.empty() && block.last < all_.size()) {
        block.next.push_back(block_of_[block.last]);
      }
    }
  }

  bool link_waits(std::size_t bssy) {
    const auto to = place(branch_target(all_[bssy]));
    const std::string_view barrier = barrier_register(all_[bssy]);
    std::vector<std::size_t> open = {bssy + 1};
    Blocks seen(blocks_.size());
    bool grown = false;
    while (!open.empty()) {
      std::size_t i = open.back();
      open.pop_back();
      if (i >= all_.size()) {
        continue;
      }
      BasicBlock& block = blocks_[block_of_[i]];
      bool ends = false;
      for (; i < block.last && !ends; ++i) {
        ends = (all_[i].is("BSSY") || all_[i].is("BSYNC")) && barrier_register(all_[i]) == barrier;
        if (ends && all_[i].is("BSYNC") && to.has_value() &&
            std::ranges::find(block.next, block_of_[*to]) == block.next.end()) {
          block.next.push_back(block_of_[*to]);
          grown = true;
        }
      }
      if (ends) {
        continue;
      }
      for (const std::size_t next : block.next) {
        if (!seen[next]) {
          seen[next] = true;
          open.push_back(blocks_[next].first);
        }
      }
    }
    return grown;
  }

  std::span<const Instruction> all_;
  std::vector<BasicBlock> blocks_;
  std::vector<std::size_t> block_of_;  // index of the block of each instruction
};

/// Assigns blocks to roles, and checks that roles do not mix.
class RoleFinder {
 public:
  RoleFinder(std::span<const Instruction> instructions, std::span<const BasicBlock> blocks)
      : instructions_(instructions), blocks_(blocks), before_(blocks.size()) {
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      next_.push_back(blocks[block].next);
      for (const std::size_t following : next_[block]) {
        before_[following].push_back(block);
      }
    }
    entered_ = reached_from_entry();
  }

  [[nodiscard]] RoleParts find(std::span<const Role> roles) && {
    for (const Role& role : roles) {
      add_reach(role);
    }
    check_paths();
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      result_.parts.emplace_back(block_part(block));
      check_instructions(block);
    }
    check_entries();
    return std::move(result_);
  }

 private:
  /// The blocks before and after the instructions that only one role executes.
  struct Reach {
    const Role* role = nullptr;
    const Instruction* first = nullptr;  // first of these instructions
    Blocks leads;                        // blocks from which one of these instructions is reachable
    Blocks follows;                      // blocks that are reachable from one of these instructions
  };

  [[nodiscard]] std::span<const Instruction> block_instructions(std::size_t block) const {
    return instructions_.subspan(blocks_[block].first, blocks_[block].last - blocks_[block].first);
  }
  /// Returns the instruction's offset in its kernel, which may not be the first one in the listing.
  [[nodiscard]] std::size_t offset(const Instruction& instruction) const {
    return instruction.address - instructions_.front().address;
  }
  [[nodiscard]] Blocks reached_from_entry() const {
    Blocks reached(blocks_.size());
    reached[0] = true;
    follow(next_, reached);
    return reached;
  }

  void add_reach(const Role& role) {
    Reach reach{&role, nullptr, Blocks(blocks_.size()), {}};
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      for (const Instruction& instruction : block_instructions(block)) {
        if (entered_[block] && instruction.is(role.instruction)) {
          reach.first = reach.first == nullptr ? &instruction : reach.first;
          reach.leads[block] = true;
        }
      }
    }
    if (reach.first == nullptr) {
      result_.faults.push_back(
          fmt::format("the role '{}' lacks its instruction {}", role.name, role.instruction));
    }
    reach.follows = reach.leads;
    follow(before_, reach.leads);
    follow(next_, reach.follows);
    reaches_.push_back(std::move(reach));
  }

  void check_paths() {
    for (const Reach& from : reaches_) {
      for (const Reach& to : reaches_) {
        for (std::size_t block = 0; block < blocks_.size() && &from != &to; ++block) {
          if (from.follows[block] && to.leads[block]) {
            result_.faults.push_back(fmt::format(
                "a path leads from the {} ({} at {:#x}) to the {} ({} at {:#x}), through {:#x}",
                from.role->name, from.first->name, offset(*from.first), to.role->name,
                to.first->name, offset(*to.first), offset(block_instructions(block).front())));
            break;
          }
        }
      }
    }
  }

  [[nodiscard]] std::string_view block_part(std::size_t block) const {
    if (!entered_[block]) {
      const bool calls =
          std::ranges::any_of(blocks_, [](const auto& caller) { return !caller.calls.empty(); });
      return calls ? kFunctions : kPadding;
    }
    if (std::ranges::count_if(reaches_, [&](const Reach& r) { return r.leads[block]; }) > 1) {
      return kPrologue;
    }
    if (std::ranges::count_if(reaches_, [&](const Reach& r) { return r.follows[block]; }) > 1) {
      return kEpilogue;
    }
    const auto reach = std::ranges::find_if(
        reaches_, [&](const Reach& r) { return r.leads[block] || r.follows[block]; });
    return reach != reaches_.end() ? std::string_view(reach->role->name) : kIdle;
  }

  void check_instructions(std::size_t block) {
    const std::string& part = result_.parts[block];
    const bool is_role =
        std::ranges::any_of(reaches_, [&](const Reach& r) { return r.role->name == part; });
    for (const Instruction& instruction : block_instructions(block)) {
      if (is_role && is_block_barrier(instruction) && instruction.is("BAR")) {
        result_.faults.push_back(
            fmt::format("{} at {:#x}, of the {}, waits for all threads of the block, but the other "
                        "roles never arrive",
                        instruction.name, offset(instruction), part));
      }
      // Code after the roles have joined must not multiply, access memory or reduce.
      if (part == kEpilogue && is_work(kind_of(instruction.name))) {
        result_.faults.push_back(
            fmt::format("{} at {:#x} is executed by several roles, which may share only barriers",
                        instruction.name, offset(instruction)));
      }
    }
  }

  /// Checks that every path from the kernel's entry to a role passes a barrier.
  void check_entries() {
    const auto has_barrier = [&](std::size_t block) {
      return std::ranges::any_of(block_instructions(block), is_block_barrier);
    };
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (has_barrier(block)) {
        next_[block].clear();
      }
    }
    const Blocks unsynchronised = reached_from_entry();
    for (const Reach& reach : reaches_) {
      for (std::size_t block = 0; block < blocks_.size(); ++block) {
        if (unsynchronised[block] && result_.parts[block] == reach.role->name &&
            !has_barrier(block)) {
          result_.faults.push_back(fmt::format("no barrier of all threads precedes the {} ({:#x})",
                                               reach.role->name,
                                               offset(block_instructions(block).front())));
          break;
        }
      }
    }
  }

  std::span<const Instruction> instructions_;
  std::span<const BasicBlock> blocks_;
  std::vector<std::vector<std::size_t>> next_;
  std::vector<std::vector<std::size_t>> before_;
  Blocks entered_;
  std::vector<Reach> reaches_;
  RoleParts result_;
};

}  // namespace

bool Instruction::is(std::string_view instruction) const {
  return name.starts_with(instruction) &&
         (name.size() == instruction.size() || name[instruction.size()] == '.');
}

std::vector<Instruction> read_instructions(std::string_view listing) {
  std::vector<Instruction> all;
  const auto skip = [](std::string_view& text, std::string_view characters) {
    text.remove_prefix(std::min(text.find_first_not_of(characters), text.size()));
  };
  while (!listing.empty()) {
    const std::size_t end = std::min(listing.find('\n'), listing.size());
    std::string_view line = listing.substr(0, end);
    listing.remove_prefix(std::min(end + 1, listing.size()));
    // Parses a line such as "        /*0010*/              @!P0 LDG.E.128 R4, [R2] ;": address,
    // predicate, name.
    skip(line, " \t");
    const std::size_t close = line.find("*/");
    if (!line.starts_with("/*") || close == line.npos || close < 3) {
      continue;
    }
    Instruction instruction;
    const char* const address_end = line.data() + close;
    if (std::from_chars(line.data() + 2, address_end, instruction.address, 16).ptr != address_end) {
      continue;
    }
    line.remove_prefix(close + 2);
    skip(line, " \t{");
    if (line.starts_with('@')) {
      instruction.predicate = line.substr(0, line.find(' '));
      line.remove_prefix(instruction.predicate.size());
      skip(line, " \t{");
    }
    instruction.name = line.substr(0, std::min(line.find_first_of(" ;\t"), line.size()));
    line.remove_prefix(instruction.name.size());
    skip(line, " \t");
    instruction.operands = line.substr(0, std::min(line.find_first_of(";}"), line.size()));
    instruction.operands =
        instruction.operands.substr(0, instruction.operands.find_last_not_of(" \t") + 1);
    if (!instruction.name.empty() &&
        std::isupper(static_cast<unsigned char>(instruction.name.front())) != 0) {
      all.push_back(instruction);
    }
  }
  return all;
}

std::vector<BasicBlock> control_flow(std::span<const Instruction> instructions) {
  return FlowReader(instructions).blocks();
}

RoleParts find_roles(std::span<const Instruction> instructions, std::span<const BasicBlock> blocks,
                     std::span<const Role> roles) {
  if (roles.empty() || blocks.empty()) {
    return {.parts = std::vector<std::string>(blocks.size())};
  }
  return RoleFinder(instructions, blocks).find(roles);
}

std::string to_dot(std::string_view kernel, std::span<const Instruction> instructions,
                   std::span<const BasicBlock> blocks, const RoleParts& roles) {
  constexpr std::array<std::string_view, 5> kColours = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc",
                                                        "#d9d2e9"};
  std::string text = fmt::format(
      "digraph \"{}\" {{\n  node [shape=box, style=filled, fillcolor=\"#eeeeee\", "
      "fontname=monospace];\n",
      kernel);
  std::map<std::string, std::vector<std::size_t>> by_part;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    by_part[roles.parts[block]].push_back(block);
  }
  std::size_t colour = 0;
  for (const auto& [part, members] : by_part) {
    if (!part.empty()) {
      text +=
          fmt::format("  subgraph \"cluster_{}\" {{\n  label=\"{}\"; node [fillcolor=\"{}\"];\n",
                      part, part, kColours.at(colour++ % kColours.size()));
    }
    for (const std::size_t block : members) {
      const auto listed =
          instructions.subspan(blocks[block].first, blocks[block].last - blocks[block].first);
      std::map<std::string_view, int> told;
      for (const Instruction& instruction : listed) {
        if (kind_of(instruction.name) != InstructionKind::kOther) {
          ++told[instruction.name];
        }
      }
      text += fmt::format("  b{} [label=\"{:#x} to {:#x}\\l{} instructions\\l", block,
                          listed.front().address, listed.back().address, listed.size());
      for (const auto& [name, count] : told) {
        text += fmt::format("{} {}\\l", count, name);
      }
      text += "\"];\n";
    }
    text += part.empty() ? "" : "  }\n";
  }
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (const std::size_t next : blocks[block].next) {
      text += fmt::format("  b{} -> b{};\n", block, next);
    }
    for (const std::size_t called : blocks[block].calls) {
      text += fmt::format("  b{} -> b{} [style=dashed];\n", block, called);
    }
  }
  return text + "}\n";
}

}  // namespace fovea::lab
