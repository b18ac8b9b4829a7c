// Shadow of a block's shared memory: each cell's last write and the reads since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/races/access.hpp"
#include "emulator/races/pages.hpp"
#include "emulator/races/same_writes.hpp"

namespace emu::races {

class SharedShadow {
 public:
  /// Records an access and returns what it conflicts with, if anything.
  std::optional<Conflict> read(const View& view, std::uint64_t offset, std::size_t bytes);
  std::optional<Conflict> write(const View& view, std::uint64_t offset, std::size_t bytes);
  /// Replaces the writes of a copy that was waited for by this access.
  void settle(const Access& access, std::uint64_t offset, std::size_t bytes);

 private:
  struct Mark {
    std::uint32_t epoch = 0;  // 0: not read
    std::uint32_t origin = 0;
  };
  struct Reader {
    Party party = kNoParty;
    Cells<Mark> marks{};
  };
  struct Page {
    unsigned shift = kCellShift;
    Cells<Access> writes{};
    std::vector<Reader> readers{};

    [[nodiscard]] std::size_t cells() const { return kPageBytes >> shift; }
    Mark* marks_of(Party party);
  };

  static void refine(Page& page, unsigned finer);

  std::vector<Page> pages_;
  SameWrites same_writes_;
};

}  // namespace emu::races
