// Tracer: reports each operation and step of asynchronous work to the caller.
#include "emulator/machine/tracer.hpp"

#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/block.hpp"
#include "emulator/program/program.hpp"

namespace emu {

std::string_view name_of(TraceKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"",       "waits", "resumes",
                                                      "copies", "works", "ends"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string TraceEvent::text() const {
  const std::string_view what = name_of(kind);
  return fmt::format("{} grid {} block {} warp {} lanes {:08x} line {} {}{}{}", turn, grid,
                     fmt::join(block, ","), warp, lanes, line, instruction,
                     what.empty() ? "" : ": ", what);
}

void Tracer::record(TraceKind kind, Warp& warp, const Op& op, Lanes lanes) const {
  const Block& block = warp.block();
  const Grid& grid = warp.block().grid();
  callback_({.kind = kind,
             .turn = turn_,
             .grid = grid.number,
             .kernel = grid.program->function->name,
             .block = block.index(),
             .warp = warp.index(),
             .lanes = lanes,
             .line = op.instruction->line,
             .instruction = op.instruction->opcode,
             .passes = kind == TraceKind::kRun ? count_passes_(warp, op, lanes) : 0});
}

}  // namespace emu
