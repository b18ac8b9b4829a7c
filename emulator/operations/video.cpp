// Video instructions: vadd, vsub, vabsdiff, vmin, vmax, vshl, vshr, vset, vmad on a part of each
// operand, and vadd2, vadd4 and the like on two or four parts.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <optional>

#include "emulator/operations/exact_number.hpp"
#include "emulator/operations/lane_wise.hpp"
#include "emulator/operations/operations.hpp"
#include "emulator/operations/registers.hpp"

namespace emu {
namespace {

enum class VideoFunction : std::uint8_t {
  kAdd,
  kSub,
  kAbsDiff,
  kMin,
  kMax,
  kShl,
  kShr,
  kAverage,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};
constexpr std::array<std::string_view, 6> kVideoComparisons = {"eq", "ne", "lt", "le", "gt", "ge"};

Int128 compute(VideoFunction function, std::int64_t a, std::int64_t b) {
  switch (function) {
    case VideoFunction::kAdd:
      return a + b;
    case VideoFunction::kSub:
      return a - b;
    case VideoFunction::kAbsDiff:
      return std::abs(a - b);
    case VideoFunction::kMin:
      return std::min(a, b);
    case VideoFunction::kMax:
      return std::max(a, b);
    case VideoFunction::kShl:
      return Int128{a} << b;
    case VideoFunction::kShr:
      return a >> b;
    case VideoFunction::kAverage:  // rounds halves away from zero
      return (a + b + (a + b >= 0 ? 1 : 0)) >> 1;
    case VideoFunction::kEqual:
      return a == b ? 1 : 0;
    case VideoFunction::kNotEqual:
      return a != b ? 1 : 0;
    case VideoFunction::kLess:
      return a < b ? 1 : 0;
    case VideoFunction::kLessOrEqual:
      return a <= b ? 1 : 0;
    case VideoFunction::kGreater:
      return a > b ? 1 : 0;
    case VideoFunction::kGreaterOrEqual:
      return a >= b ? 1 : 0;
  }
  return 0;
}

// A part of a word: some bits from a place on.
struct Part {
  std::uint8_t place = 0;
  std::uint8_t bits = 32;

  [[nodiscard]] std::int64_t extract(std::uint32_t word, bool is_signed) const {
    return static_cast<std::int64_t>(extend_bits(word >> place, bits, is_signed));
  }
  [[nodiscard]] std::uint32_t mask() const {
    return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1) << place;
  }
  [[nodiscard]] std::uint32_t insert(Int128 value, std::uint32_t word) const {
    return (static_cast<std::uint32_t>(value) << place & mask()) | (word & ~mask());
  }
};

Int128 clamp_to(Int128 value, int bits, bool is_signed) {
  const std::int64_t lowest = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
  return std::clamp<Int128>(value, lowest, lowest + (std::int64_t{1} << bits) - 1);
}

enum class SecondFunction : std::uint8_t { kNone, kAdd, kMin, kMax, kMerge };

struct VideoSource {
  Part part{};
  bool is_signed = false;
  bool has_minus = false;
};

// Slots: the destination and the sources, the third of which may not be there.
struct ScalarVideo {
  VideoFunction function{};
  SecondFunction second = SecondFunction::kNone;
  VideoSource a{};
  VideoSource b{};
  Part to{};
  bool is_signed = false;
  bool saturates = false;
  bool wraps = false;  // the distance of a shift

  [[nodiscard]] std::uint32_t compute_word(std::uint32_t x, std::uint32_t y,
                                           std::uint32_t z) const {
    std::int64_t distance_or_number = b.part.extract(y, b.is_signed);
    if (function == VideoFunction::kShl || function == VideoFunction::kShr) {
      distance_or_number =
          wraps ? distance_or_number & 31 : std::min<std::int64_t>(distance_or_number, 32);
    }
    Int128 result = compute(function, a.part.extract(x, a.is_signed), distance_or_number);
    if (saturates) {
      result = clamp_to(result, to.bits, is_signed);
    }
    const Int128 c = Part{}.extract(z, is_signed);
    switch (second) {
      case SecondFunction::kNone:
        break;
      case SecondFunction::kAdd:
        result += c;
        break;
      case SecondFunction::kMin:
        result = std::min(result, c);
        break;
      case SecondFunction::kMax:
        result = std::max(result, c);
        break;
      case SecondFunction::kMerge:
        return to.insert(result, z);
    }
    return static_cast<std::uint32_t>(result);
  }
};

// vmad: a * b + c, of which a product or c may be subtracted, and which may be shifted.
struct VideoMad {
  VideoSource a{};
  VideoSource b{};
  bool has_negated_product = false;
  bool has_negated_sum = false;  // c is subtracted
  bool adds_one = false;         // .po
  bool saturates = false;
  std::uint8_t distance = 0;

  [[nodiscard]] std::uint32_t compute_word(std::uint32_t x, std::uint32_t y,
                                           std::uint32_t z) const {
    const bool is_signed = a.is_signed || b.is_signed || has_negated_product || has_negated_sum;
    const Int128 product = Int128{a.part.extract(x, a.is_signed)} * b.part.extract(y, b.is_signed);
    const Int128 c = Part{}.extract(z, is_signed);
    const Int128 sum = (has_negated_product ? -product : product) + (has_negated_sum ? -c : c) +
                       (adds_one ? 1 : 0);
    const Int128 result = sum >> distance;
    return static_cast<std::uint32_t>(saturates ? clamp_to(result, 32, is_signed) : result);
  }
};

// Instruction on two or four parts. Each part of an operand is chosen among those of both words.
struct VectorVideo {
  VideoFunction function{};
  std::uint8_t count = 2;
  std::uint8_t mask = 0;  // parts of the result that are computed
  std::array<std::uint8_t, 4> a{};
  std::array<std::uint8_t, 4> b{};
  bool is_a_signed = false;
  bool is_b_signed = false;
  bool is_signed = false;
  bool saturates = false;
  bool accumulates = false;  // .add: adds the results to c; otherwise c has all other parts

  [[nodiscard]] std::uint32_t compute_word(std::uint32_t x, std::uint32_t y,
                                           std::uint32_t z) const {
    const auto bits = static_cast<std::uint8_t>(32 / count);
    const auto number = [&](std::uint8_t chosen, bool has_sign) {
      const Part part{.place = static_cast<std::uint8_t>(chosen % count * bits), .bits = bits};
      return part.extract(chosen < count ? x : y, has_sign);
    };
    std::uint32_t result = z;
    for (std::uint8_t i = 0; i < count; ++i) {
      if ((mask >> i & 1U) == 0) {
        continue;
      }
      Int128 value = compute(function, number(a.at(i), is_a_signed), number(b.at(i), is_b_signed));
      if (saturates) {
        value = clamp_to(value, bits, is_signed);
      }
      result = accumulates
                   ? result + static_cast<std::uint32_t>(value)
                   : Part{.place = static_cast<std::uint8_t>(i * bits), .bits = bits}.insert(
                         value, result);
    }
    return result;
  }
};

template <typename Video>
Outcome run_video(Warp& warp, const Op& op, Lanes lanes) {
  const auto& video = op.get<Video>();
  const bool has_third = op.slots[3] != kNoSlot;
  const auto a = warp.read<std::uint32_t>(op.slots[1]);
  const auto b = warp.read<std::uint32_t>(op.slots[2]);
  const auto c = has_third ? warp.read<std::uint32_t>(op.slots[3]) : Vec<std::uint32_t>{};
  Vec<std::uint32_t> results{};
  for_each_lane(lanes, [&](int lane) {
    results.lanes[lane] = video.compute_word(a.lanes[lane], b.lanes[lane], c.lanes[lane]);
  });
  warp.write(op.slots[0], results, lanes,
             warp.valid(op.slots[1]) & warp.valid(op.slots[2]) &
                 (has_third ? warp.valid(op.slots[3]) : kAllLanes));
  return Outcome::kDone;
}

// Takes the types of destination and sources in the order in which they are written.
std::array<bool, 3> take_signs(Decoder& decoder, std::size_t count) {
  std::array<bool, 3> signs{};
  for (std::size_t i = 0; i < count; ++i) {
    const Type type = decoder.take_type();
    if (type != Type::kS32 && type != Type::kU32) {
      decoder.fail("unsupported type");
    }
    signs.at(i) = type == Type::kS32;
  }
  return signs;
}

syntax::Operand without_selector(const syntax::Operand& operand) {
  syntax::Operand whole = operand;
  whole.selector.clear();
  whole.has_minus = false;
  return whole;
}

Part part_of(const Decoder& decoder, const syntax::Operand& operand) {
  const std::string& selector = operand.selector;
  if (selector.empty()) {
    return {};
  }
  const bool is_byte = selector[0] == 'b';
  const int index = selector.size() == 2 ? selector[1] - '0' : -1;
  if ((!is_byte && selector[0] != 'h') || index < 0 || index >= (is_byte ? 4 : 2)) {
    decoder.fail("unsupported part of a register");
  }
  const auto bits = static_cast<std::uint8_t>(is_byte ? 8 : 16);
  return {.place = static_cast<std::uint8_t>(index * bits), .bits = bits};
}

void add_source(Decoder& decoder, std::size_t index) {
  decoder.add(decoder.source(without_selector(decoder.operand(index)), Type::kB32));
}

VideoSource take_source(Decoder& decoder, std::size_t index, bool is_signed) {
  const syntax::Operand& operand = decoder.operand(index);
  add_source(decoder, index);
  return {
      .part = part_of(decoder, operand), .is_signed = is_signed, .has_minus = operand.has_minus};
}

std::optional<VideoFunction> take_comparison_of(Decoder& decoder, std::string_view mnemonic) {
  if (!mnemonic.starts_with("vset")) {
    return std::nullopt;
  }
  return static_cast<VideoFunction>(static_cast<std::size_t>(VideoFunction::kEqual) +
                                    decoder.take_index_of(kVideoComparisons));
}

template <VideoFunction kFunction>
void decode_scalar(Decoder& decoder) {
  ScalarVideo video{.function = kFunction};
  const auto comparison = take_comparison_of(decoder, decoder.mnemonic());
  std::array<bool, 3> signs{};
  if (comparison) {  // the result has no type
    video.function = *comparison;
    const auto sources = take_signs(decoder, 2);
    signs = {false, sources[0], sources[1]};
  } else {
    signs = take_signs(decoder, 3);
    video.saturates = decoder.take("sat");
  }
  video.is_signed = signs[0];
  if (kFunction == VideoFunction::kShl || kFunction == VideoFunction::kShr) {
    video.wraps = decoder.take_one_of({"clamp", "wrap"}) == "wrap";
    if (signs[2]) {
      decoder.fail("a distance has the type .u32");
    }
  }
  video.second = decoder.take("add")   ? SecondFunction::kAdd
                 : decoder.take("min") ? SecondFunction::kMin
                 : decoder.take("max") ? SecondFunction::kMax
                                       : SecondFunction::kNone;
  video.to = part_of(decoder, decoder.operand(0));
  if (video.to.bits < 32) {
    if (video.second != SecondFunction::kNone) {
      decoder.fail("a part of the result cannot be merged and computed further");
    }
    video.second = SecondFunction::kMerge;
  }
  decoder.expect_operands(video.second == SecondFunction::kNone ? 3 : 4);
  decoder.add(decoder.destination(without_selector(decoder.operand(0)), 32));
  video.a = take_source(decoder, 1, signs[1]);
  video.b = take_source(decoder, 2, signs[2]);
  if (video.second != SecondFunction::kNone) {
    decoder.add(decoder.source(3, Type::kB32));
  }
  if (video.a.has_minus || video.b.has_minus) {
    decoder.fail("no operand may be negated");
  }
  decoder.op().details.set(video);
  decoder.op().code = &run_video<ScalarVideo>;
}

void decode_vmad(Decoder& decoder) {
  const auto signs = take_signs(decoder, 3);
  VideoMad video{.adds_one = decoder.take("po"), .saturates = decoder.take("sat")};
  video.distance = decoder.take("shr7") ? 7 : decoder.take("shr15") ? 15 : 0;
  decoder.expect_operands(4);
  decoder.add(decoder.destination(0, 32));
  video.a = take_source(decoder, 1, signs[1]);
  video.b = take_source(decoder, 2, signs[2]);
  const VideoSource c = take_source(decoder, 3, false);
  if (c.part.bits != 32) {
    decoder.fail("the third source is a whole register");
  }
  video.has_negated_product = video.a.has_minus != video.b.has_minus;
  video.has_negated_sum = c.has_minus;
  if ((video.has_negated_product && video.has_negated_sum) ||
      (video.adds_one && (video.a.has_minus || video.b.has_minus || c.has_minus))) {
    decoder.fail("too many operands are negated");
  }
  decoder.op().details.set(video);
  decoder.op().code = &run_video<VideoMad>;
}

// Reads the parts that a selector like "b3210" names, the highest first; `parts` has the default.
void read_choice(const Decoder& decoder, const syntax::Operand& operand, std::size_t count,
                 std::array<std::uint8_t, 4>& parts) {
  const std::string& selector = operand.selector;
  if (selector.empty()) {
    return;
  }
  bool is_known = selector.size() == count + 1 && selector[0] == (count == 2 ? 'h' : 'b');
  for (std::size_t i = 0; is_known && i < count; ++i) {
    const int index = selector[count - i] - '0';
    is_known = index >= 0 && index < static_cast<int>(2 * count);
    parts.at(i) = static_cast<std::uint8_t>(index);
  }
  if (!is_known) {
    decoder.fail("unsupported parts of a register");
  }
}

// Reads the parts of the result that are computed.
std::uint8_t read_mask(const Decoder& decoder, std::size_t count) {
  const std::string& selector = decoder.operand(0).selector;
  if (selector.empty()) {
    return static_cast<std::uint8_t>((1U << count) - 1);
  }
  unsigned mask = 0;
  for (std::size_t i = 1; i < selector.size(); ++i) {
    const int index = selector[i] - '0';
    const bool is_known = index >= 0 && index < static_cast<int>(count);
    if (!is_known || (mask & ((2U << index) - 1)) != 0) {  // the highest first
      mask = 0;
      break;
    }
    mask |= 1U << index;
  }
  if (mask == 0 || selector[0] != (count == 2 ? 'h' : 'b')) {
    decoder.fail("unsupported parts of a register");
  }
  return static_cast<std::uint8_t>(mask);
}

template <VideoFunction kFunction, std::uint8_t kCount>
void decode_vector(Decoder& decoder) {
  VectorVideo video{.function = kFunction, .count = kCount};
  const auto comparison = take_comparison_of(decoder, decoder.mnemonic());
  video.function = comparison.value_or(kFunction);
  const auto signs = take_signs(decoder, comparison ? 2 : 3);
  video.is_signed = !comparison && signs[0];
  video.is_a_signed = signs[comparison ? 0 : 1];
  video.is_b_signed = signs[comparison ? 1 : 2];
  video.accumulates = decoder.take("add");
  video.saturates = !comparison && !video.accumulates && decoder.take("sat");
  decoder.expect_operands(4);
  video.mask = read_mask(decoder, kCount);
  for (std::uint8_t i = 0; i < kCount; ++i) {
    video.a.at(i) = i;
    video.b.at(i) = static_cast<std::uint8_t>(kCount + i);
  }
  read_choice(decoder, decoder.operand(1), kCount, video.a);
  read_choice(decoder, decoder.operand(2), kCount, video.b);
  if (decoder.operand(1).has_minus || decoder.operand(2).has_minus) {
    decoder.fail("no operand may be negated");
  }
  decoder.add(decoder.destination(without_selector(decoder.operand(0)), 32));
  add_source(decoder, 1);
  add_source(decoder, 2);
  decoder.add(decoder.source(3, Type::kB32));
  decoder.op().details.set(video);
  decoder.op().code = &run_video<VectorVideo>;
}

using enum VideoFunction;
constexpr std::array kOperations = {
    Operation{"vadd", &decode_scalar<kAdd>},
    Operation{"vsub", &decode_scalar<kSub>},
    Operation{"vabsdiff", &decode_scalar<kAbsDiff>},
    Operation{"vmin", &decode_scalar<kMin>},
    Operation{"vmax", &decode_scalar<kMax>},
    Operation{"vshl", &decode_scalar<kShl>},
    Operation{"vshr", &decode_scalar<kShr>},
    Operation{"vset", &decode_scalar<kEqual>},
    Operation{"vmad", &decode_vmad},
    Operation{"vadd2", &decode_vector<kAdd, 2>},
    Operation{"vsub2", &decode_vector<kSub, 2>},
    Operation{"vavrg2", &decode_vector<kAverage, 2>},
    Operation{"vabsdiff2", &decode_vector<kAbsDiff, 2>},
    Operation{"vmin2", &decode_vector<kMin, 2>},
    Operation{"vmax2", &decode_vector<kMax, 2>},
    Operation{"vset2", &decode_vector<kEqual, 2>},
    Operation{"vadd4", &decode_vector<kAdd, 4>},
    Operation{"vsub4", &decode_vector<kSub, 4>},
    Operation{"vavrg4", &decode_vector<kAverage, 4>},
    Operation{"vabsdiff4", &decode_vector<kAbsDiff, 4>},
    Operation{"vmin4", &decode_vector<kMin, 4>},
    Operation{"vmax4", &decode_vector<kMax, 4>},
    Operation{"vset4", &decode_vector<kEqual, 4>},
};

}  // namespace

std::span<const Operation> video_operations() {
  return kOperations;
}

}  // namespace emu
