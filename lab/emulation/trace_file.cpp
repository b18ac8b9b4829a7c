// Writes a trace: the operations of all warps in the order of their execution.
#include "lab/emulation/trace_file.hpp"

#include <fmt/format.h>

#include "lab/emulation/emulation.hpp"

namespace fovea::emulation {

emu::TraceFunction TraceFile::recorder() {
  return [this](const emu::TraceEvent& event) {
    if (event.grid > named_) {
      named_ = event.grid;
      add(fmt::format("# grid {}: {}", event.grid, source_name(std::string(event.kernel))));
    }
    add(event.text());
  };
}

void TraceFile::add(std::string_view line) {
  constexpr std::size_t kMaxPending = std::size_t{1} << 20U;
  pending_ += line;
  pending_ += '\n';
  if (pending_.size() > kMaxPending) {
    flush();
  }
}

void TraceFile::flush() {
  file_.write(std::string_view(pending_));
  pending_.clear();
}

void TraceFile::commit() {
  flush();
  file_.commit();
}

}  // namespace fovea::emulation
