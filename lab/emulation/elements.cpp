// Implements the types of numbers in kernels' memory.
#include "lab/emulation/elements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/dtype.hpp"

namespace fovea::emulation {
namespace {

struct TypeFacts {
  std::string_view name;
  std::string_view bits_name;  // "b32"; empty for types that share it with an earlier type
  std::string_view descr;
  std::size_t bytes;
  bool is_float;
};

// Types in the order of ElementType.
constexpr std::array<TypeFacts, 13> kTypes = {{{"u8", "b8", "|u1", 1, false},
                                               {"s8", "", "|i1", 1, false},
                                               {"e4m3", "", "|u1", 1, true},
                                               {"u16", "b16", "<u2", 2, false},
                                               {"s16", "", "<i2", 2, false},
                                               {"f16", "", "<f2", 2, true},
                                               {"bf16", "", "<u2", 2, true},
                                               {"u32", "b32", "<u4", 4, false},
                                               {"s32", "", "<i4", 4, false},
                                               {"f32", "", "<f4", 4, true},
                                               {"u64", "b64", "<u8", 8, false},
                                               {"s64", "", "<i8", 8, false},
                                               {"f64", "", "<f8", 8, true}}};

const TypeFacts& facts(ElementType type) {
  return kTypes.at(static_cast<std::size_t>(type));
}

std::optional<ElementType> type_at(decltype(kTypes)::const_iterator match) {
  return match == kTypes.end() ? std::nullopt
                               : std::optional(static_cast<ElementType>(match - kTypes.begin()));
}

template <typename T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Calls `use` with a value of the corresponding C++ type: an integer, float or double.
template <typename Use>
auto with_type(ElementType type, const Use& use) {
  switch (type) {
    case ElementType::kU8:
    case ElementType::kE4M3:
      return use(std::uint8_t{});
    case ElementType::kS8:
      return use(std::int8_t{});
    case ElementType::kU16:
    case ElementType::kF16:
    case ElementType::kBF16:
      return use(std::uint16_t{});
    case ElementType::kS16:
      return use(std::int16_t{});
    case ElementType::kU32:
      return use(std::uint32_t{});
    case ElementType::kS32:
      return use(std::int32_t{});
    case ElementType::kF32:
      return use(float{});
    case ElementType::kU64:
      return use(std::uint64_t{});
    case ElementType::kS64:
      return use(std::int64_t{});
    case ElementType::kF64:
      break;
  }
  return use(double{});
}

// Parses bits such as "0x3f800000". Returns false if the text is not a hexadecimal number that fits
// into `bytes` bytes.
bool put_bits(std::string_view text, std::size_t bytes, std::byte* to) {
  std::uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  if (error != std::errc{} || end != text.data() + text.size() ||
      (bytes < 8 && bits >> (8 * bytes) != 0)) {
    return false;
  }
  std::memcpy(to, &bits, bytes);
  return true;
}

}  // namespace

std::optional<ElementType> find_type(std::string_view name) {
  const auto match = std::ranges::find_if(kTypes, [&](const TypeFacts& type) {
    return name == type.name || (!name.empty() && name == type.bits_name);
  });
  return type_at(match);
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const TypeFacts& type : kTypes) {
    names.emplace_back(type.name);
    if (!type.bits_name.empty()) {
      names.emplace_back(type.bits_name);
    }
  }
  return names;
}

std::string_view name_of(ElementType type) {
  return facts(type).name;
}

std::size_t size_of(ElementType type) {
  return facts(type).bytes;
}

bool is_float(ElementType type) {
  return facts(type).is_float;
}

std::string_view npy_descr(ElementType type) {
  return facts(type).descr;
}

std::optional<ElementType> type_of_npy(std::string_view descr) {
  // No type of ml_dtypes may precede the NumPy type with the same descr.
  return type_at(std::ranges::find(kTypes, descr, &TypeFacts::descr));
}

bool fits_npy(ElementType type, std::string_view descr) {
  if (descr == npy_descr(type)) {
    return true;
  }
  // NumPy writes arrays of ml_dtypes' types as opaque bytes.
  return (type == ElementType::kBF16 && (descr == "|V2" || descr == "<V2")) ||
         (type == ElementType::kE4M3 && (descr == "|V1" || descr == "<V1"));
}

void put(ElementType type, double value, std::byte* to) {
  if (type == ElementType::kF16) {
    return store(to_float16(static_cast<float>(value)).bits, to);
  }
  if (type == ElementType::kBF16) {
    return store(to_bfloat16(static_cast<float>(value)).bits, to);
  }
  if (type == ElementType::kE4M3) {
    return store(to_e4m3(static_cast<float>(value)).bits, to);
  }
  with_type(type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      store(static_cast<T>(value), to);
    } else {
      // kMax is rounded up for 64-bit integers, hence the comparison with >=.
      constexpr auto kMin = static_cast<double>(std::numeric_limits<T>::min());
      constexpr auto kMax = static_cast<double>(std::numeric_limits<T>::max());
      const double rounded = std::nearbyint(value);
      store(!(rounded > kMin) ? std::numeric_limits<T>::min()
            : rounded >= kMax ? std::numeric_limits<T>::max()
                              : static_cast<T>(rounded),
            to);
    }
  });
}

std::string put(ElementType type, const nlohmann::json& value, std::byte* to) {
  const std::string error = fmt::format("{} is not a valid {}", value.dump(), name_of(type));
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.starts_with("0x") && text.size() > 2) {
      return put_bits(text, size_of(type), to) ? "" : error;
    }
    const bool is_infinite = text == "inf" || text == "-inf";
    if (!is_float(type) || (!is_infinite && text != "nan")) {
      return error;
    }
    put(type,
        text == "nan"    ? std::numeric_limits<double>::quiet_NaN()
        : text == "-inf" ? -std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::infinity(),
        to);
    return "";
  }
  if (!value.is_number()) {
    return error;
  }
  if (is_float(type)) {
    put(type, value.get<double>(), to);
    return "";
  }
  if (!value.is_number_integer()) {
    return error;
  }
  return with_type(type, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>) {
      const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                   : std::in_range<T>(value.get<std::int64_t>());
      if (!fits) {
        return error;
      }
      store(value.get<T>(), to);
    }
    return std::string();
  });
}

double get(ElementType type, const std::byte* from) {
  switch (type) {
    case ElementType::kF16:
      return to_float(Float16{load<std::uint16_t>(from)});
    case ElementType::kBF16:
      return to_float(BFloat16{load<std::uint16_t>(from)});
    case ElementType::kE4M3:
      return to_float(Float8E4M3{load<std::uint8_t>(from)});
    default:
      return with_type(type, [&]<typename T>(T) { return static_cast<double>(load<T>(from)); });
  }
}

std::string text_of(ElementType type, const std::byte* from) {
  if (is_float(type) && type != ElementType::kF64) {
    return fmt::format("{}", static_cast<float>(get(type, from)));
  }
  return with_type(type, [&]<typename T>(T) { return fmt::format("{}", load<T>(from)); });
}

}  // namespace fovea::emulation
