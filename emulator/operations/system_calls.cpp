// Functions that the system has for kernels: printf and assert.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emulator/machine/block.hpp"
#include "emulator/operations/memory.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/print_format.hpp"

namespace emu {
namespace {

constexpr std::size_t kMaxStringBytes = std::size_t{64} << 10U;

const Call& call_of(Warp& warp, const Op& op) {
  return warp.grid().program->calls[static_cast<std::size_t>(op.target)];
}

std::uint64_t argument(Warp& warp, const Op& op, std::size_t number, int lane) {
  const Warp::Argument read = warp.read_argument(call_of(warp, op).arguments[number], lane);
  if (!read.is_valid) {
    warp.stop(FindingKind::kUninitialized, op, lane_bit(lane),
              fmt::format("argument {} of the call was never written", number + 1));
  }
  return read.value;
}

// Reads the string at a generic address, to the zero byte.
std::string read_string(Warp& warp, const Op& op, int lane, std::uint64_t address) {
  std::string text;
  for (; text.size() < kMaxStringBytes; ++address) {
    const Memory memory = resolve_unaligned(warp, op, lane, MemorySpace::kGeneric, address, 1);
    if (!memory.is_written(0, 1)) {
      warp.stop(FindingKind::kUninitialized, op, lane_bit(lane),
                fmt::format("it reads a string at {:#x} that was never written", address));
    }
    if (*memory.bytes == std::byte{0}) {
      break;
    }
    text += static_cast<char>(*memory.bytes);
  }
  return text;
}

// Reads the values of a printf, which lie one after the other, each at a multiple of its size.
class PrintedValues {
 public:
  PrintedValues(Warp& warp, const Op& op, int lane)
      : warp_(warp), op_(op), lane_(lane), address_(argument(warp, op, 1, lane)) {}

  std::uint64_t next(std::size_t bytes) {
    address_ = syntax::align_up(address_, bytes);
    const Memory memory = resolve(warp_, op_, lane_, MemorySpace::kGeneric, address_, bytes);
    if (!memory.is_written(0, bytes) && warp_.grid().checks_stored_values) {
      warp_.stop(FindingKind::kUninitialized, op_, lane_bit(lane_),
                 "it prints a value that was never written");
    }
    std::uint64_t value = 0;
    std::memcpy(&value, memory.bytes, bytes);
    address_ += bytes;
    return value;
  }

 private:
  Warp& warp_;
  const Op& op_;
  int lane_;
  std::uint64_t address_;
};

// vprintf(format, values)
Outcome run_vprintf(Warp& warp, const Op& op, Lanes lanes) {
  Printed& printed = *warp.block().grid().printed;
  for_each_lane(lanes, [&](int lane) {
    PrintedValues values(warp, op, lane);
    const PrintSource source{.next = [&](std::size_t bytes) { return values.next(bytes); },
                             .string_at =
                                 [&](std::uint64_t address) {
                                   return address == 0 ? std::string("(null)")
                                                       : read_string(warp, op, lane, address);
                                 }};
    int count = 0;
    if (!printed.is_full()) {
      const std::string format = read_string(warp, op, lane, argument(warp, op, 0, lane));
      printed.add(format_print(format, source, Printed::kMaxBytes, count));
    }
    for (const PassedValue& result : call_of(warp, op).results) {
      warp.write_result(result, lane, static_cast<std::uint64_t>(count));
    }
  });
  return Outcome::kDone;
}

// __assertfail(assertion, file, line, function, size of a character)
Outcome run_assertfail(Warp& warp, const Op& op, Lanes lanes) {
  const int lane = std::countr_zero(lanes);
  const auto text = [&](std::size_t number) {
    return read_string(warp, op, lane, argument(warp, op, number, lane));
  };
  warp.stop(FindingKind::kAssertion, op, lanes,
            fmt::format("{}:{}: {}: the assertion `{}` does not hold", text(1),
                        argument(warp, op, 2, lane), text(3), text(0)));
}

void require_sizes(Decoder& decoder, std::initializer_list<std::size_t> sizes) {
  const Call& call = decoder.call();
  const auto has_size = [](const PassedValue& value, std::size_t bytes) {
    return value.bytes == bytes;
  };
  if (!std::ranges::equal(call.arguments, sizes, has_size) || call.results.size() > 1) {
    decoder.fail("the function has other parameters");
  }
}

void decode_vprintf(Decoder& decoder) {
  require_sizes(decoder, {8, 8});
  decoder.op().code = &run_vprintf;
}

void decode_assertfail(Decoder& decoder) {
  require_sizes(decoder, {8, 8, 4, 8, 8});
  decoder.op().code = &run_assertfail;
}

constexpr std::array kOperations = {
    Operation{"call vprintf", &decode_vprintf},
    Operation{"call __assertfail", &decode_assertfail},
};

}  // namespace

std::span<const Operation> system_operations() {
  return kOperations;
}

}  // namespace emu
