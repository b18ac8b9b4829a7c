// Shadow of a global memory allocation: each cell's last write and the reads since, over all grids
// of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/races/access.hpp"
#include "emulator/races/pages.hpp"
#include "emulator/races/same_writes.hpp"

namespace emu::races {

class GlobalShadow {
 public:
  /// Records an access and returns what it conflicts with, if anything.
  std::optional<Conflict> read(const View& view, std::uint64_t offset, std::size_t bytes);
  std::optional<Conflict> write(const View& view, std::uint64_t offset, std::size_t bytes);

 private:
  // List node for reads of a cell by actors that are not ordered among each other. Once two
  // clusters have read the cell, one read of each is enough: any later write conflicts with one of
  // them.
  struct Node {
    Access access{};
    std::uint32_t next = 0;
  };
  struct Reads {
    Access last{};
    std::uint32_t other_reads = 0;  // first node of the list; 0: none
  };
  struct Page {
    unsigned shift = kCellShift;
    Cells<Access> writes{};
    Cells<Reads> reads{};
  };

  void refine(Page& page, unsigned finer);
  void add_read(const View& view, Reads& reads);
  void add_node(Reads& reads, const Access& access);
  void free_nodes(Reads& reads);
  template <typename Use>
  void for_each_cell_range(std::uint64_t offset, std::size_t bytes, Use&& use);

  std::vector<Page> pages_;
  SameWrites same_writes_;
  std::vector<Node> nodes_{Node{}};
  std::uint32_t first_free_ = 0;  // first free node
};

}  // namespace emu::races
