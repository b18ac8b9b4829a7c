// Shadow of a global memory allocation: each cell's last write and the reads since, over all grids
// of a run.
#include "emulator/races/global_shadow.hpp"

#include <algorithm>
#include <utility>

#include "emulator/races/rules.hpp"

namespace emu::races {
namespace {

// Limit of the reads of a cell that are kept, where threads may order clusters.
constexpr std::size_t kMaxReaders = 256;

bool is_of_cluster(const View& view, const Access& earlier) {
  return cluster_of(earlier.party) == cluster_of(view.access.party);
}

bool covers(const ClusterClocks* clocks, const Access& earlier) {
  return clocks != nullptr &&
         clocks->covers(cluster_of(earlier.party), actor_of(earlier.party), earlier.epoch);
}

// Orders another cluster's write by the end of its grid, or by threads that have told each other.
std::optional<ConflictKind> global_write_conflict(const View& view, const Access& earlier,
                                                  std::uint64_t offset) {
  if (view.is_read_only && !view.ended_at_begin->contains(earlier.party)) {
    return ConflictKind::kReadOnlyWritten;
  }
  if (is_of_cluster(view, earlier)) {
    return write_conflict(view, earlier, offset);
  }
  if (!view.ended->contains(earlier.party) && !covers(view.others, earlier)) {
    return are_strong(view, earlier) ? std::nullopt : std::optional(ConflictKind::kUnordered);
  }
  if (!is_async(earlier) && !view.ended_with_visible_writes->contains(earlier.party) &&
      !covers(view.visible_others, earlier)) {
    return ConflictKind::kNoProxyFence;
  }
  return std::nullopt;
}

bool read_comes_before(const View& view, const Access& earlier) {
  return is_of_cluster(view, earlier)
             ? comes_before(view, earlier, *view.prior_accesses)
             : view.ended->contains(earlier.party) || covers(view.others, earlier);
}

}  // namespace

// Splits the page's cells. Each of the smaller ones gets a copy of the list of reads.
void GlobalShadow::refine(Page& page, unsigned finer) {
  const std::size_t cells = kPageBytes >> page.shift;
  const std::size_t times = std::size_t{1} << (page.shift - finer);
  page.writes.refine(cells, times);
  page.shift = finer;
  if (page.reads.is_empty()) {
    return;
  }
  page.reads.refine(cells, times);
  Reads* const reads = page.reads.get(cells * times);
  for (std::size_t i = 0; i < cells * times; ++i) {
    if (i % times == 0) {
      continue;
    }
    std::uint32_t from = std::exchange(reads[i].other_reads, 0);
    for (; from != 0; from = nodes_[from].next) {
      add_node(reads[i], Access(nodes_[from].access));
    }
  }
}

void GlobalShadow::add_node(Reads& reads, const Access& access) {
  std::uint32_t node = first_free_;
  if (node != 0) {
    first_free_ = nodes_[node].next;
  } else {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[node] = {.access = access, .next = reads.other_reads};
  reads.other_reads = node;
}

void GlobalShadow::free_nodes(Reads& reads) {
  while (reads.other_reads != 0) {
    Node& node = nodes_[reads.other_reads];
    const std::uint32_t number = std::exchange(reads.other_reads, node.next);
    node.next = std::exchange(first_free_, number);
  }
}

// Keeps the latest read in `last`. Moves the previous one to the list, unless it happens before the
// new read, which then represents both.
void GlobalShadow::add_read(const View& view, Reads& reads) {
  const Access& current = view.access;
  const Access previous = std::exchange(reads.last, current);
  if (previous.party == kNoParty || previous.party == current.party) {
    return;
  }
  if (!is_of_cluster(view, previous) && !view.keeps_all_readers) {
    if (view.ended->contains(previous.party)) {
      return;
    }
    // Two clusters have read the cell: keeps only the other read of the latest grid.
    if (reads.other_reads != 0) {
      const Access other = nodes_[reads.other_reads].access;
      if (!is_of_cluster(view, other) && cluster_of(other.party) > cluster_of(previous.party)) {
        return;
      }
      free_nodes(reads);
    }
    add_node(reads, previous);
    return;
  }
  std::size_t readers = 0;
  for (std::uint32_t node = reads.other_reads; node != 0; node = nodes_[node].next) {
    Access& other = nodes_[node].access;
    if (++readers == kMaxReaders || (!view.keeps_all_readers && !is_of_cluster(view, other) &&
                                     !view.ended->contains(other.party))) {
      return;
    }
    if (other.party == current.party || other.party == previous.party ||
        read_comes_before(view, other)) {
      other = previous;
      return;
    }
  }
  if (!read_comes_before(view, previous)) {
    add_node(reads, previous);
  }
}

template <typename Use>
void GlobalShadow::for_each_cell_range(std::uint64_t offset, std::size_t bytes, Use&& use) {
  for_each_page(
      pages_, offset, bytes, [this](Page& page, unsigned finer) { refine(page, finer); }, use);
}

std::optional<Conflict> GlobalShadow::read(const View& view, std::uint64_t offset,
                                           std::size_t bytes) {
  std::optional<Conflict> conflict;
  const auto conflict_with_write = [&](const Access& earlier, std::uint64_t place) {
    return global_write_conflict(view, earlier, place);
  };
  for_each_cell_range(
      offset, bytes, [&](Page& page, std::size_t first, std::size_t count, std::uint64_t start) {
        const std::size_t cells = kPageBytes >> page.shift;
        if (!page.writes.is_empty() && !conflict.has_value()) {
          conflict = check_writes(view, {page.writes.get(cells) + first, count}, page.shift,
                                  start + (first << page.shift), conflict_with_write);
        }
        Reads* const reads = page.reads.get(cells) + first;
        for (std::size_t i = 0; i < count; ++i) {
          add_read(view, reads[i]);
        }
      });
  if (!same_writes_.is_empty() && !conflict.has_value()) [[unlikely]] {
    conflict = same_writes_.check(offset, bytes, conflict_with_write);
  }
  return conflict;
}

std::optional<Conflict> GlobalShadow::write(const View& view, std::uint64_t offset,
                                            std::size_t bytes) {
  std::optional<Conflict> conflict;
  const auto conflict_with_write = [&](const Access& earlier, std::uint64_t place) {
    return global_write_conflict(view, earlier, place);
  };
  for_each_cell_range(
      offset, bytes, [&](Page& page, std::size_t first, std::size_t count, std::uint64_t start) {
        const std::size_t cells = kPageBytes >> page.shift;
        Access* const writes = page.writes.get(cells) + first;
        start += first << page.shift;
        if (!conflict.has_value()) {
          conflict = check_and_keep_writes(view, {writes, count}, page.shift, start, same_writes_,
                                           conflict_with_write);
        }
        std::fill_n(writes, count, view.access);
        if (page.reads.is_empty()) {
          return;
        }
        Reads* const cell_reads = page.reads.get(cells) + first;
        for (std::size_t i = 0; i < count; ++i) {
          Reads& reads = cell_reads[i];
          const auto check = [&](const Access& earlier) {
            if (!conflict.has_value() && earlier.party != kNoParty &&
                !read_comes_before(view, earlier) && !are_strong(view, earlier)) {
              conflict = Conflict{.other = earlier, .offset = start + (i << page.shift)};
            }
          };
          check(reads.last);
          for (std::uint32_t node = reads.other_reads; node != 0; node = nodes_[node].next) {
            check(nodes_[node].access);
          }
          free_nodes(reads);
          reads = {};
        }
      });
  return conflict;
}

}  // namespace emu::races
