// Text of findings.
#include "fovea_emulator/finding.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace emu {

namespace {

// Names in the order of FindingKind.
constexpr std::array<std::string_view, 16> kKindNames = {
    "out of bounds", "misaligned",      "uninitialised",
    "divergent",     "barrier misuse",  "register race",
    "lifetime",      "illegal operand", "illegal tensor map",
    "deadlock",      "no progress",     "trap",
    "race",          "no proxy fence",  "no tensor fence",
    "assertion"};

}  // namespace

std::string_view name_of(FindingKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind));
}

std::optional<FindingKind> kind_called(std::string_view name) {
  const auto* const found = std::ranges::find(kKindNames, name);
  return found == kKindNames.end()
             ? std::nullopt
             : std::optional(static_cast<FindingKind>(found - kKindNames.begin()));
}

bool can_go_on_behind(FindingKind kind) {
  switch (kind) {
    case FindingKind::kUninitialized:
    case FindingKind::kRegisterRace:
    case FindingKind::kLifetime:
    case FindingKind::kRace:
    case FindingKind::kNoProxyFence:
    case FindingKind::kNoTensorFence:
      return true;
    default:
      return false;
  }
}

namespace {

// Returns a place as in Finding::source, without the lines inside the toolkit's headers; they are
// long, and what one of them does the instruction tells.
std::string_view short_source(std::string_view source) {
  return source.substr(0, source.find(" (inside "));
}

}  // namespace

std::string Finding::text() const {
  std::string text = fmt::format(
      "{}: {}: {} at line {}{}{}: {}{} [block {}, warp {}, lanes {:#010x}]", kernel, name_of(kind),
      instruction, line, source.empty() ? "" : ", ", short_source(source), message,
      place.empty() ? "" : " (" + place + ")", fmt::join(block, ","), warp, lanes);
  if (other.has_value()) {
    text +=
        fmt::format("; earlier access: {}: {} at line {}{}{} [block {}, warp {}]", other->kernel,
                    other->instruction, other->line, other->source.empty() ? "" : ", ",
                    short_source(other->source), fmt::join(other->block, ","), other->warp);
  }
  return count > 1 ? fmt::format("{} ({} times)", text, count) : text;
}

}  // namespace emu
