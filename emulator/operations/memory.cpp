// Loads and stores (ld, ldu, st), and the address checks for all memory operations.
#include "emulator/operations/memory.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "emulator/machine/block.hpp"
#include "emulator/machine/cluster.hpp"
#include "emulator/operations/accesses.hpp"
#include "emulator/operations/exact_number.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"
#include "emulator/syntax/limits.hpp"

namespace emu {
namespace {

// Names of the spaces, in the order of MemorySpace.
constexpr std::array<std::string_view, 6> kSpaceNames = {
    "memory",       "global memory", "the block's shared memory", "the cluster's shared memory",
    "local memory", "the parameters"};

// Returns the space of a generic address, and removes the window from the address.
MemorySpace resolve_space(std::uint64_t& address) {
  if (address >= kLocalWindow + kWindowBytes || address < kSharedWindow) {
    return MemorySpace::kGlobal;
  }
  const std::uint64_t window = address / kWindowBytes * kWindowBytes;
  address -= window;
  return window == kSharedWindow      ? MemorySpace::kClusterShared
         : window == kParameterWindow ? MemorySpace::kParameter
                                      : MemorySpace::kLocal;
}

// Returns the first byte of shared memory that the kernel may access near an offset: what the
// system reserves is closed to it, but for the scratch of cooperative groups.
std::size_t first_shared_byte(Block& block, std::uint64_t offset) {
  return offset < kReservedSharedBytes && block.grid().program->has_group_scratch
             ? kGroupScratch
             : kReservedSharedBytes;
}

// Returns how much shared memory a block has: ", which has 4096 bytes".
std::string shared_text(const Grid& grid) {
  const Program& program = *grid.program;
  std::string text = fmt::format(", which has {} bytes", grid.shared_bytes - kReservedSharedBytes);
  const bool has_dynamic = std::ranges::any_of(program.shared, [](const SharedVariable& variable) {
    return variable.bytes == syntax::kMaxSharedBytes;
  });
  if (has_dynamic && grid.dynamic_shared_bytes == 0) {
    text += "; the launch gives no dynamic shared memory";
  }
  return text;
}

[[noreturn]] void stop_outside(Warp& warp, const Op& op, int lane, MemorySpace space,
                               std::uint64_t address, std::size_t bytes) {
  const bool is_shared = space == MemorySpace::kShared || space == MemorySpace::kClusterShared;
  warp.stop(FindingKind::kOutOfBounds, op, lane_bit(lane),
            fmt::format("{} bytes at {:#x} are outside of {}{}", bytes, address,
                        kSpaceNames.at(static_cast<std::size_t>(space)),
                        is_shared ? shared_text(warp.block().grid()) : ""),
            std::nullopt, space == MemorySpace::kGlobal ? address : 0);
}

}  // namespace

Memory resolve(Warp& warp, const Op& op, int lane, MemorySpace space, std::uint64_t address,
               std::size_t bytes) {
  if (address % bytes != 0) {
    std::uint64_t resolved_address = address;
    const bool is_global = (space == MemorySpace::kGeneric ? resolve_space(resolved_address)
                                                           : space) == MemorySpace::kGlobal;
    warp.stop(FindingKind::kMisaligned, op, lane_bit(lane),
              fmt::format("the address {:#x} is not a multiple of {}", address, bytes),
              std::nullopt, is_global ? address : 0);
  }
  return resolve_unaligned(warp, op, lane, space, address, bytes);
}

Memory resolve_unaligned(Warp& warp, const Op& op, int lane, MemorySpace space,
                         std::uint64_t address, std::size_t bytes) {
  if (space == MemorySpace::kGeneric) {
    space = resolve_space(address);
  }
  Block& block = warp.block();
  switch (space) {
    case MemorySpace::kShared:
    case MemorySpace::kClusterShared: {
      // Removes the window from a generic address where a shared address is needed, as machine code
      // does.
      const std::uint64_t rank = address % kWindowBytes >> kRankShift;
      const std::uint64_t offset = address & kOffsetMask;
      const bool is_own = rank == block.rank();
      if (rank >= block.cluster().blocks().size() || (space == MemorySpace::kShared && !is_own) ||
          offset < first_shared_byte(block, offset) || offset > block.shared.size() ||
          bytes > block.shared.size() - offset) {
        stop_outside(warp, op, lane, space, address, bytes);
      }
      Block& owner = is_own ? block : block.cluster().blocks()[rank];
      if (!is_own && owner.is_done()) {
        warp.report(FindingKind::kLifetime, op, lane_bit(lane),
                    fmt::format("{:#x} is shared memory of block ({}), which has ended", address,
                                fmt::join(owner.index(), ",")));
      }
      return {owner.shared.data() + offset, owner.is_shared_written.data() + offset, &owner};
    }
    case MemorySpace::kParameter:
      if (const std::size_t size = block.grid().parameters.size();
          address > size || bytes > size - address) {
        stop_outside(warp, op, lane, space, address, bytes);
      }
      return {block.grid().parameters.data() + address, nullptr};
    case MemorySpace::kLocal: {
      LocalMemory& local = warp.local();
      if (!local.contains(lane, address, bytes)) {
        stop_outside(warp, op, lane, space, address, bytes);
      }
      return {local.byte(lane, address), local.written(lane, address)};
    }
    default: {
      Allocation* const allocation = block.grid().memory.find(address, bytes);
      if (allocation == nullptr) {
        stop_outside(warp, op, lane, space, address, bytes);
      }
      const std::uint64_t offset = address - allocation->address;
      return {allocation->bytes.data() + offset, allocation->is_written.data() + offset, nullptr,
              allocation};
    }
  }
}

void report_uninitialized_store(const Warp& warp, const Op& op, Lanes lanes,
                                std::uint64_t address) {
  if (warp.grid().checks_stored_values) {
    warp.report(FindingKind::kUninitialized, op, lanes,
                fmt::format("it stores an uninitialised value to global memory at {:#x}", address),
                std::nullopt, address);
  }
}

namespace {

// ld and st. Slots: the address. `list`: a register for each element. A single element of 128 bits
// counts as two of 64 bits, which have one register.
struct LoadOrStore {
  AddressOperand address{};
  MemorySpace space = MemorySpace::kGeneric;
  std::uint8_t count = 1;  // number of elements
  std::uint8_t element_bits = 0;
  std::uint8_t register_bits = 0;  // register size per element
  bool extends_sign = false;
  races::StrongAccess strength{};  // of a strong access

  [[nodiscard]] std::size_t element_bytes() const { return element_bits / 8; }
  [[nodiscard]] std::size_t bytes() const { return element_bytes() * count; }
};

// Loads an element with a load of its own size: a memcpy of variable size followed by an 8-byte
// load would stall store forwarding.
std::uint64_t load_element(const std::byte* from, std::size_t bytes) {
  const auto load = [&]<typename T>(T value) -> std::uint64_t {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (bytes) {
    case 1:
      return load(std::uint8_t{});
    case 2:
      return load(std::uint16_t{});
    case 4:
      return load(std::uint32_t{});
    default:
      return load(std::uint64_t{});
  }
}

// Calls use(byte, address) for the bytes of a lane's element in local memory that were not written.
template <typename Use>
void for_each_unwritten_local_byte(Warp& warp, int lane, const Memory& memory, std::size_t first,
                                   std::size_t bytes, Use&& use) {
  if (const auto address = warp.local().address_of(lane, memory.bytes + first)) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (!memory.is_written(first + i, 1)) {
        use(i, *address + i);
      }
    }
  }
}

// Keeps which bits of a loaded element were written.
void keep_partial(Warp& warp, const LoadOrStore& access, Slot slot, int lane, std::uint64_t value,
                  const Memory& memory, std::size_t first) {
  const std::size_t bytes = access.element_bytes();
  std::uint64_t written_bits = memory.written_bits(first, bytes);
  for_each_unwritten_local_byte(
      warp, lane, memory, first, bytes, [&](std::size_t i, std::uint64_t address) {
        written_bits |= warp.partial_bytes.written_bits(address, lane, value >> 8 * i & 0xFF)
                        << 8 * i;
      });
  const std::uint64_t mask = ~std::uint64_t{0} >> (64U - access.register_bits);
  const std::uint64_t extension = access.extends_sign || written_bits == 0
                                      ? 0
                                      : ~(~std::uint64_t{0} >> (64U - access.element_bits));
  warp.partial_values.keep(slot, lane, value & mask, (written_bits | extension) & mask);
}

// How many elements a register has.
enum class Elements : std::uint8_t { kOne, kTwo };

template <bool kIsReadOnly, bool kIsStrong, Elements kElements>
Outcome run_load(Warp& warp, const Op& op, Lanes lanes) {
  const LoadOrStore access =
      op.get<LoadOrStore>();  // a copy, which stores through std::byte* cannot change
  warp.require_valid(access.address.slot, op, lanes, "the address");
  const std::size_t element = access.element_bytes();
  const std::size_t bytes = access.bytes();
  std::array<Vec<std::uint64_t>, 8> values;
  std::array<Lanes, 8> valid{};
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op, kIsStrong);
  [[maybe_unused]] std::array<Memory, kIsStrong ? kLanes : 0> places;
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, access.address, lane);
    const Memory memory = resolve(warp, op, lane, access.space, address, bytes);
    accesses.add(memory, bytes);
    lane_accesses.check(lane, memory, bytes, false);
    lane_accesses.record(lane, memory, bytes, false);
    if constexpr (kIsStrong) {
      places.at(static_cast<std::size_t>(lane)) = memory;
    }
    const bool is_all_written = memory.is_written(0, bytes);
    for (std::size_t i = 0; i < access.count; ++i) {
      const std::uint64_t value = load_element(memory.bytes + i * element, element);
      values.at(i).lanes[lane] =
          access.extends_sign ? extend_bits(value, access.element_bits, true) : value;
      if (is_all_written || memory.is_written(i * element, element)) {
        valid.at(i) |= lane_bit(lane);
      } else if (kElements == Elements::kOne && op.list[i] != kNoSlot) [[unlikely]] {
        keep_partial(warp, access, op.list[i], lane, values.at(i).lanes[lane], memory, i * element);
      }
    }
  });
  if constexpr (kIsStrong) {
    accesses.check_read(false, access.strength.scope);
    for_each_lane(lanes, [&](int lane) {
      order_strong_access(warp, places.at(static_cast<std::size_t>(lane)), bytes, access.strength,
                          false);
    });
  } else {
    accesses.check_read(kIsReadOnly);
  }
  if constexpr (kElements == Elements::kTwo) {
    if (op.list[0] != kNoSlot) {
      Vec<UInt128> joined;
      for (int i = 0; i < kLanes; ++i) {
        joined.lanes[i] = UInt128{values[1].lanes[i]} << 64U | values[0].lanes[i];
      }
      warp.write(op.list[0], joined, lanes, valid[0] & valid[1]);
    }
    return Outcome::kDone;
  }
  for (std::size_t i = 0; i < access.count; ++i) {
    if (op.list[i] != kNoSlot) {
      write_bits(warp, op.list[i], access.register_bits, values.at(i), lanes, valid.at(i));
    }
  }
  return Outcome::kDone;
}

// Checks that lanes which write the same bytes write the same values; otherwise the result is
// unspecified.
void check_overlapping_values(Warp& warp, const Op& op, Lanes lanes,
                              const std::array<Vec<std::uint64_t>, 8>& values) {
  const LoadOrStore& access = op.get<LoadOrStore>();
  const std::size_t element = access.element_bytes();
  Lanes overwritten = 0;
  for_each_lane(lanes, [&](int lane) {
    const Memory memory = resolve(warp, op, lane, access.space,
                                  address_of(warp, access.address, lane), access.bytes());
    for (std::size_t i = 0; i < access.count; ++i) {
      if (std::memcmp(memory.bytes + i * element, &values.at(i).lanes[lane], element) != 0) {
        overwritten |= lane_bit(lane);
      }
    }
  });
  if (overwritten != 0) {
    report_differing_lanes(warp, op, overwritten);
  }
}

// Marks the bytes of an element that were written of a value that was not written as a whole, and
// in local memory the bits of the others.
void store_partial(Warp& warp, int lane, const Memory& memory, std::size_t first, std::size_t bytes,
                   Slot slot, std::uint64_t value) {
  const std::uint64_t bits = warp.partial_values.written_bits(slot, lane, value);
  for (std::size_t i = 0; i < bytes && bits != 0; ++i) {
    memory.set_written(first + i, 1, (bits >> 8 * i & 0xFF) == 0xFF);
  }
  for_each_unwritten_local_byte(
      warp, lane, memory, first, bytes, [&](std::size_t i, std::uint64_t address) {
        warp.partial_bytes.keep(address, lane, value >> 8 * i & 0xFF, bits >> 8 * i & 0xFF);
      });
}

// Whether a lane's store changes nothing: the bytes have these values already.
bool repeats_values(const LoadOrStore& access, const Memory& memory, int lane,
                    const std::array<Vec<std::uint64_t>, 8>& values,
                    const std::array<Lanes, 8>& valid) {
  const std::size_t element = access.element_bytes();
  if (!memory.is_written(0, access.bytes())) {
    return false;
  }
  for (std::size_t i = 0; i < access.count; ++i) {
    if ((valid.at(i) & lane_bit(lane)) == 0 ||
        std::memcmp(memory.bytes + i * element, &values.at(i).lanes[lane], element) != 0) {
      return false;
    }
  }
  return true;
}

template <bool kIsStrong, Elements kElements>
Outcome run_store(Warp& warp, const Op& op, Lanes lanes) {
  const LoadOrStore access = op.get<LoadOrStore>();
  warp.require_valid(access.address.slot, op, lanes, "the address");
  const std::size_t element = access.element_bytes();
  const std::size_t bytes = access.bytes();
  std::array<Vec<std::uint64_t>, 8> values;
  std::array<Lanes, 8> valid{};
  if constexpr (kElements == Elements::kTwo) {
    const auto joined = warp.read<UInt128>(op.list[0]);
    for (int i = 0; i < kLanes; ++i) {
      values[0].lanes[i] = static_cast<std::uint64_t>(joined.lanes[i]);
      values[1].lanes[i] = static_cast<std::uint64_t>(joined.lanes[i] >> 64U);
    }
    valid[0] = valid[1] = warp.valid(op.list[0]);
  } else {
    for (std::size_t i = 0; i < access.count; ++i) {
      values.at(i) = read_bits(warp, op.list[i], access.register_bits);
      valid.at(i) = warp.valid(op.list[i]);
    }
  }
  Accesses accesses(warp, op, lanes);
  const LaneAccesses lane_accesses(warp, op, kIsStrong);
  std::array<Memory, kLanes> places;
  const bool may_repeat = !kIsStrong && !warp.grid().checks_same_stores && warp.races() != nullptr;
  for_each_lane(lanes, [&](int lane) {
    const std::uint64_t address = address_of(warp, access.address, lane);
    const Memory memory = resolve_written(warp, op, lane, access.space, address, bytes);
    const bool is_repetition = may_repeat && repeats_values(access, memory, lane, values, valid);
    accesses.add(memory, bytes, is_repetition);
    lane_accesses.check(lane, memory, bytes, true, is_repetition);
    places.at(static_cast<std::size_t>(lane)) = memory;
    for (std::size_t i = 0; i < access.count; ++i) {
      const bool is_valid = (valid.at(i) >> static_cast<unsigned>(lane) & 1U) != 0;
      std::memcpy(memory.bytes + i * element, &values.at(i).lanes[lane], element);
      memory.set_written(i * element, element, is_valid);
      if (!is_valid) [[unlikely]] {
        if constexpr (kElements == Elements::kOne) {
          store_partial(warp, lane, memory, i * element, element, op.list[i],
                        values.at(i).lanes[lane]);
        }
        if (memory.allocation != nullptr && !memory.is_written(i * element, element)) {
          report_uninitialized_store(warp, op, lane_bit(lane), address + i * element);
        }
      }
    }
  });
  for_each_lane(lanes, [&](int lane) {
    lane_accesses.record(lane, places.at(static_cast<std::size_t>(lane)), bytes, true);
  });
  accesses.check_write(kIsStrong ? access.strength.scope : races::Scope::kNone);
  if constexpr (kIsStrong) {
    for_each_lane(lanes, [&](int lane) {
      order_strong_access(warp, places.at(static_cast<std::size_t>(lane)), bytes, access.strength,
                          true);
    });
  } else if (accesses.overlap()) {
    check_overlapping_values(warp, op, lanes, values);
  }
  return Outcome::kDone;
}

MemorySpace take_space(Decoder& decoder, bool is_load) {
  const MemorySpace shared = take_shared_space(decoder);
  if (shared != MemorySpace::kGeneric) {
    return shared;
  }
  if (decoder.take_any_of({"param", "param::entry", "param::func"})) {
    return decoder.is_local_parameter(is_load ? 1 : 0) ? MemorySpace::kLocal
                                                       : MemorySpace::kParameter;
  }
  // .const variables are in global memory, at addresses of their own.
  return decoder.take("global") || (is_load && decoder.take("const")) ? MemorySpace::kGlobal
         : decoder.take("local")                                      ? MemorySpace::kLocal
                                                                      : MemorySpace::kGeneric;
}

template <bool kIsLoad, Elements kElements>
Code access_code(bool is_strong, bool is_read_only) {
  if constexpr (kIsLoad) {
    return is_strong      ? &run_load<false, true, kElements>
           : is_read_only ? &run_load<true, false, kElements>
                          : &run_load<false, false, kElements>;
  } else {
    return is_strong ? &run_store<true, kElements> : &run_store<false, kElements>;
  }
}

template <bool kIsLoad>
void decode_access(Decoder& decoder) {
  if (!kIsLoad && decoder.take("async")) {
    decode_remote_store(decoder);
    return;
  }
  Op& op = decoder.op();
  LoadOrStore access{.space = take_space(decoder, kIsLoad)};
  const bool is_uniform = kIsLoad && decoder.mnemonic() == "ldu";
  const bool is_read_only = kIsLoad && (decoder.take("nc") || is_uniform);
  if (is_read_only && access.space != MemorySpace::kGlobal &&
      !(is_uniform && access.space == MemorySpace::kGeneric)) {
    decoder.fail(is_uniform ? "ldu is supported for global memory only"
                            : ".nc is supported for global memory only");
  }
  if (!is_read_only && !decoder.take("weak")) {
    access.strength = take_order(decoder, kIsLoad, !kIsLoad, false);
  }
  const bool has_policy = take_cache_hints(decoder, kIsLoad);
  decoder.take("unified");
  access.count = decoder.take("v2") ? 2 : decoder.take("v4") ? 4 : decoder.take("v8") ? 8 : 1;
  const Type type = decoder.take_type();
  decoder.expect_operands(has_policy ? 3 : 2);
  if (has_policy) {
    static_cast<void>(decoder.source(2, Type::kB64));  // cache policy, which has no effect here
  }
  if (access.count * bits_of(type) > 256) {
    decoder.fail("unsupported access to more than 32 bytes");
  }
  const bool is_wide = type == Type::kB128 && access.count == 1;
  if (bits_of(type) < 8 || (bits_of(type) > 64 && !is_wide)) {
    decoder.fail("unsupported type");
  }
  access.address = decoder.add_address(kIsLoad ? 1 : 0);
  const std::span<const syntax::Operand> elements = decoder.parts(kIsLoad ? 0 : 1, access.count);
  const int bits = bits_of(type);
  int register_bits = std::max(bits, 16);
  for (const syntax::Operand& element : elements) {
    register_bits = std::max(register_bits, decoder.register_bits(element, type));
  }
  if (register_bits > (is_wide ? 128 : 64)) {
    decoder.fail("unsupported register of more than 64 bits");
  }
  const Type register_type = register_bits == bits ? type : bit_type(register_bits);
  for (const syntax::Operand& element : elements) {
    if (kIsLoad && element.kind == syntax::OperandKind::kSink) {
      op.list.push_back(kNoSlot);
    } else {
      op.list.push_back(kIsLoad ? decoder.destination(element, register_bits)
                                : decoder.source(element, register_type));
    }
  }
  access.count = is_wide ? 2 : access.count;
  access.element_bits = static_cast<std::uint8_t>(is_wide ? 64 : bits);
  access.register_bits = static_cast<std::uint8_t>(is_wide ? 64 : register_bits);
  access.extends_sign = is_signed(type);
  const bool is_strong = access.strength.scope != races::Scope::kNone;
  op.details.set(access);
  op.code = is_wide ? access_code<kIsLoad, Elements::kTwo>(is_strong, is_read_only)
                    : access_code<kIsLoad, Elements::kOne>(is_strong, is_read_only);
}

constexpr std::uint64_t kPassBytes = 128;
constexpr std::uint64_t kWordBytes = 4;

std::size_t count_distinct(std::vector<std::uint64_t>& numbers) {
  std::ranges::sort(numbers);
  return static_cast<std::size_t>(std::ranges::unique(numbers).begin() - numbers.begin());
}

// Counts the wavefronts of an access to shared memory: each serves one word of every bank.
std::uint32_t shared_wavefronts(std::span<const std::uint64_t> addresses, std::size_t bytes) {
  std::array<std::vector<std::uint64_t>, kPassBytes / kWordBytes> banks;
  for (const std::uint64_t address : addresses) {
    for (std::uint64_t word = address / kWordBytes; word * kWordBytes < address + bytes; ++word) {
      banks.at(word % banks.size()).push_back(word);
    }
  }
  std::size_t maximum = 0;
  for (std::vector<std::uint64_t>& words : banks) {
    maximum = std::max(maximum, count_distinct(words));
  }
  return static_cast<std::uint32_t>(maximum);
}

constexpr std::array kOperations = {
    Operation{"ld", &decode_access<true>},
    Operation{"st", &decode_access<false>},
    Operation{"ldu", &decode_access<true>},
};

}  // namespace

std::uint32_t passes_of_access(const Warp& warp, const Op& op, Lanes lanes) {
  if (!op.details.holds<LoadOrStore>()) {
    return 0;
  }
  const LoadOrStore& access = op.get<LoadOrStore>();
  const std::size_t bytes = access.bytes();
  MemorySpace space = access.space;
  std::vector<std::uint64_t> addresses;
  for_each_lane(lanes, [&](int lane) {
    std::uint64_t address = address_of(warp, access.address, lane);
    if (access.space == MemorySpace::kGeneric) {
      space = resolve_space(address);
    }
    addresses.push_back(address);
  });
  if (space == MemorySpace::kGlobal) {
    for (std::uint64_t& address : addresses) {
      address /= kPassBytes;
    }
    return static_cast<std::uint32_t>(count_distinct(addresses));
  }
  std::uint32_t passes = 0;
  if (space == MemorySpace::kShared || space == MemorySpace::kClusterShared) {
    const std::size_t lanes_per_group = std::min<std::size_t>(kLanes, kPassBytes / bytes);
    for (std::size_t first = 0; first < addresses.size(); first += lanes_per_group) {
      const std::span<const std::uint64_t> rest = std::span(addresses).subspan(first);
      passes += shared_wavefronts(rest.first(std::min(lanes_per_group, rest.size())), bytes);
    }
  }
  return passes;
}

std::span<const Operation> memory_operations() {
  return kOperations;
}

}  // namespace emu
