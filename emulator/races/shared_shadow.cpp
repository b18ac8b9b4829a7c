// Shadow of a block's shared memory: each cell's last write and the reads since.
#include "emulator/races/shared_shadow.hpp"

#include <algorithm>

#include "emulator/races/rules.hpp"

namespace emu::races {

void SharedShadow::refine(Page& page, unsigned finer) {
  const std::size_t times = std::size_t{1} << (page.shift - finer);
  page.writes.refine(page.cells(), times);
  for (Reader& reader : page.readers) {
    reader.marks.refine(page.cells(), times);
  }
  page.shift = finer;
}

SharedShadow::Mark* SharedShadow::Page::marks_of(Party party) {
  const auto known = std::ranges::find(readers, party, &Reader::party);
  Reader& reader = known != readers.end() ? *known : readers.emplace_back(Reader{.party = party});
  return reader.marks.get(cells());
}

std::optional<Conflict> SharedShadow::read(const View& view, std::uint64_t offset,
                                           std::size_t bytes) {
  std::optional<Conflict> conflict;
  const auto conflict_with_write = [&](const Access& earlier, std::uint64_t place) {
    return write_conflict(view, earlier, place);
  };
  for_each_page(pages_, offset, bytes, &refine,
                [&](Page& page, std::size_t first, std::size_t count, std::uint64_t start) {
                  if (!page.writes.is_empty() && !conflict.has_value()) {
                    conflict = check_writes(view, {page.writes.get(page.cells()) + first, count},
                                            page.shift, start + (first << page.shift),
                                            conflict_with_write);
                  }
                  std::fill_n(page.marks_of(view.access.party) + first, count,
                              Mark{.epoch = view.access.epoch, .origin = view.access.origin});
                });
  if (!same_writes_.is_empty() && !conflict.has_value()) [[unlikely]] {
    conflict = same_writes_.check(offset, bytes, conflict_with_write);
  }
  return conflict;
}

std::optional<Conflict> SharedShadow::write(const View& view, std::uint64_t offset,
                                            std::size_t bytes) {
  std::optional<Conflict> conflict;
  const auto conflict_with_write = [&](const Access& earlier, std::uint64_t place) {
    return write_conflict(view, earlier, place);
  };
  for_each_page(
      pages_, offset, bytes, &refine,
      [&](Page& page, std::size_t first, std::size_t count, std::uint64_t start) {
        Access* const writes = page.writes.get(page.cells()) + first;
        start += first << page.shift;
        if (!conflict.has_value()) {
          conflict = check_and_keep_writes(view, {writes, count}, page.shift, start, same_writes_,
                                           conflict_with_write);
        }
        std::fill_n(writes, count, view.access);
        for (Reader& reader : page.readers) {
          Mark* const marks = reader.marks.get(page.cells()) + first;
          const std::uint32_t before = view.prior_accesses->at(actor_of(reader.party));
          const bool is_own = view.fragments != nullptr && actor_of(reader.party) == view.warp;
          for (std::size_t i = 0; i < count; ++i) {
            const Mark mark = marks[i];
            marks[i] = {};
            if (mark.epoch == 0 || conflict.has_value()) {
              continue;
            }
            const Access earlier{.party = reader.party, .epoch = mark.epoch, .origin = mark.origin};
            if (((mark.epoch > before && !comes_before(view, earlier, *view.prior_accesses)) ||
                 (is_own && !is_before_in_warp(view, earlier))) &&
                !are_strong(view, earlier)) {
              conflict = Conflict{.other = earlier, .offset = start + (i << page.shift)};
            }
          }
        }
      });
  return conflict;
}

void SharedShadow::settle(const Access& access, std::uint64_t offset, std::size_t bytes) {
  for_each_page(pages_, offset, bytes, &refine,
                [&](Page& page, std::size_t first, std::size_t count, std::uint64_t /*start*/) {
                  std::fill_n(page.writes.get(page.cells()) + first, count, access);
                });
}

}  // namespace emu::races
