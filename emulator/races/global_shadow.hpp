// Shadow of an allocation in global memory: the last write of each cell, and the reads since, by
// all grids of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/races/access.hpp"
#include "emulator/races/pages.hpp"

namespace emu::races {

class GlobalShadow {
 public:
  /// Records an access and returns what it conflicts with, if anything.
  std::optional<Conflict> read(const View& view, std::uint64_t offset, std::size_t bytes);
  std::optional<Conflict> write(const View& view, std::uint64_t offset, std::size_t bytes);

 private:
  // Reads of a cell by actors of which none happens before another. Once two clusters have read it,
  // one read of each is enough: any later write conflicts with one of them.
  struct Node {
    Access access{};
    std::uint32_t next = 0;
  };
  struct Reads {
    Access last{};
    std::uint32_t others = 0;  // the first node; 0: none
  };
  struct Page {
    unsigned shift = kCellShift;
    Cells<Access> writes{};
    Cells<Reads> reads{};
  };

  void refine(Page& page, unsigned finer);
  void add_read(const View& view, Reads& reads);
  void add_node(Reads& reads, const Access& access);
  void forget_nodes(Reads& reads);
  template <typename Use>
  void for_each_part(std::uint64_t offset, std::size_t bytes, Use&& use);

  std::vector<Page> pages_;
  std::vector<Node> nodes_{Node{}};
  std::uint32_t free_ = 0;  // nodes that nothing uses
};

}  // namespace emu::races
