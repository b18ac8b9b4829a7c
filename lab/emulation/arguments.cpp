// Parses the arguments of kernels in launch.json.

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/emulation/field.hpp"
#include "lab/emulation/launch_file.hpp"
#include "lab/emulation/limits.hpp"

namespace fovea::emulation {
namespace {

constexpr std::size_t kMaxMapRank = 5;
constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 40U;

constexpr std::array kOthers = {"bytes", "buffer", "tensor_map", "struct"};

/// Maps ElementType, in declaration order, to the type of a tensor map.
constexpr std::array kMapTypes = {
    emu::TensorMapType::kU8,   emu::TensorMapType::kU8,  emu::TensorMapType::kU8,
    emu::TensorMapType::kU16,  emu::TensorMapType::kU16, emu::TensorMapType::kF16,
    emu::TensorMapType::kBF16, emu::TensorMapType::kU32, emu::TensorMapType::kS32,
    emu::TensorMapType::kF32,  emu::TensorMapType::kU64, emu::TensorMapType::kS64,
    emu::TensorMapType::kF64};

struct NamedSwizzle {
  std::string_view name;
  emu::TensorMapSwizzle swizzle;
};
constexpr std::array kSwizzles = {
    NamedSwizzle{"none", emu::TensorMapSwizzle::kNone},
    NamedSwizzle{"32B", emu::TensorMapSwizzle::k32},
    NamedSwizzle{"64B", emu::TensorMapSwizzle::k64},
    NamedSwizzle{"128B", emu::TensorMapSwizzle::k128},
    NamedSwizzle{"128B_ATOM_32B", emu::TensorMapSwizzle::k128Atom32},
    NamedSwizzle{"128B_ATOM_64B", emu::TensorMapSwizzle::k128Atom64},
};

ElementType type_named(std::string_view name) {
  return find_type(name).value();  // NOLINT(bugprone-unchecked-optional-access): throws
}

ElementType type_in(const Field& field) {
  return type_named(field.choice(type_names()));
}

// Copies the values for the dimensions, innermost first.
template <typename T, std::size_t kCount>
void fill(std::array<T, kCount>& to, const std::vector<std::uint64_t>& from) {
  std::ranges::transform(from, to.begin(),
                         [](std::uint64_t number) { return static_cast<T>(number); });
}

TensorMapArgument read_tensor_map(const Field& field, const std::vector<Buffer>& buffers) {
  field.expect_keys(
      {"buffer", "offset", "type", "dims", "strides", "box", "element_strides", "swizzle", "fill"});
  TensorMapArgument map{.address = read_address(field, buffers), .desc = {}};
  const Buffer& buffer = buffers[map.address.buffer];
  const auto named = field.find("type");
  const ElementType type = named ? type_in(*named) : buffer.type;
  map.desc.type = kMapTypes.at(static_cast<std::size_t>(type));

  std::vector<std::uint64_t> dims;
  if (const auto given = field.find("dims")) {
    dims = given->wholes(1, kMaxMapRank, 1, kMaxNumber + 1);
  } else {
    const auto shape = buffer.shape.dims();
    if (shape.empty() || shape.size() > kMaxMapRank) {
      field.fail(fmt::format(
          "\"dims\" is required because the buffer's shape {} does not have 1 to {} dimensions",
          buffer.shape.to_string(), kMaxMapRank));
    }
    dims.assign(shape.rbegin(), shape.rend());
  }
  const std::size_t rank = dims.size();
  map.desc.rank = static_cast<int>(rank);
  fill(map.desc.dims, dims);
  fill(map.desc.box, field.at("box").wholes(rank, rank, 1, kMaxNumber));
  if (const auto strides = field.find("strides")) {
    fill(map.desc.strides, strides->wholes(rank - 1, rank - 1, 0, kMaxOffset));
  } else {
    std::uint64_t bytes = size_of(type);
    for (std::size_t i = 0; i + 1 < rank; ++i) {
      if (dims[i] > kMaxOffset / bytes) {
        field.fail(
            "\"strides\" is required because the strides computed from \"dims\" exceed 2^40 bytes");
      }
      bytes *= dims[i];
      map.desc.strides.at(i) = bytes;
    }
  }
  if (const auto steps = field.find("element_strides")) {
    fill(map.desc.element_strides, steps->wholes(rank, rank, 1, kMaxNumber));
  }
  if (const auto swizzle = field.find("swizzle")) {
    std::vector<std::string> names;
    for (const NamedSwizzle& known : kSwizzles) {
      names.emplace_back(known.name);
    }
    const std::string& name = swizzle->choice(names);
    map.desc.swizzle = std::ranges::find(kSwizzles, name, &NamedSwizzle::name)->swizzle;
  }
  if (const auto outside = field.find("fill")) {
    map.desc.fill = outside->choice({"zero", "nan"}) == "nan" ? emu::TensorMapFill::kNan
                                                              : emu::TensorMapFill::kZero;
  }
  return map;
}

// Parses hexadecimal bytes: "00ff" gives two bytes.
std::vector<std::byte> read_bytes(const Field& field) {
  const std::string& text = field.text();
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned value = 0;
    const char* const first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc{} || end != first + 2) {
      field.fail(
          fmt::format("\"{}\" is not a byte of two hexadecimal digits", text.substr(2 * i, 2)));
    }
    bytes[i] = static_cast<std::byte>(value);
  }
  if (text.size() % 2 != 0) {
    field.fail("the number of hexadecimal digits must be even");
  }
  return bytes;
}

// Parses a number, or an array of numbers.
std::vector<std::byte> read_numbers(const Field& field, ElementType type) {
  const std::vector<Field> numbers =
      field.value().is_array() ? field.elements() : std::vector<Field>{field};
  std::vector<std::byte> bytes(numbers.size() * size_of(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    put_number(numbers[i], type, &bytes[i * size_of(type)]);
  }
  return bytes;
}

}  // namespace

BufferAddress read_address(const Field& field, const std::vector<Buffer>& buffers) {
  const Field name = field.at("buffer");
  const std::string& buffer_name = name.text();
  const auto match = std::ranges::find(buffers, buffer_name, &Buffer::name);
  if (match == buffers.end()) {
    std::vector<std::string> names;
    std::ranges::transform(buffers, std::back_inserter(names), &Buffer::name);
    name.fail(fmt::format("unknown buffer \"{}\"; the buffers are {}", buffer_name,
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const auto offset = field.find("offset");
  return {.buffer = static_cast<std::size_t>(match - buffers.begin()),
          .offset = offset ? offset->whole(0, kMaxOffset) : 0};
}

Argument read_argument(const Field& field, const std::vector<Buffer>& buffers, bool is_member) {
  std::vector<std::string> kinds = type_names();
  kinds.insert(kinds.end(), kOthers.begin(), kOthers.end());
  std::vector<std::string> known_keys = kinds;
  known_keys.emplace_back("offset");
  if (is_member) {
    known_keys.emplace_back("at");
  }
  field.expect_keys(known_keys);
  std::vector<std::string> given_kinds;
  std::ranges::copy_if(kinds, std::back_inserter(given_kinds),
                       [&](const std::string& kind) { return field.find(kind).has_value(); });
  if (given_kinds.size() != 1) {
    field.fail(fmt::format(
        "expected exactly one of the fields {}, got {}", fmt::join(kinds, ", "),
        given_kinds.empty() ? "none" : fmt::format("{}", fmt::join(given_kinds, " and "))));
  }
  const std::string& kind = given_kinds.front();
  const Field what = field.at(kind);
  if (const auto offset = field.find("offset"); offset && kind != "buffer") {
    offset->fail("an offset is only allowed with \"buffer\"");
  }
  Argument argument{.what = {}, .path = field.path()};
  if (kind == "buffer") {
    argument.what = read_address(field, buffers);
  } else if (kind == "tensor_map") {
    argument.what = read_tensor_map(what, buffers);
  } else if (kind == "bytes") {
    argument.what = read_bytes(what);
  } else if (kind == "struct") {
    StructArgument fields;
    for (const Field& member : what.elements()) {
      fields.fields.push_back(read_argument(member, buffers, true));
      fields.offsets.push_back(member.at("at").whole(0, kMaxNumber));
    }
    argument.what = std::move(fields);
  } else {
    argument.what = read_numbers(what, type_named(kind));
  }
  return argument;
}

}  // namespace fovea::emulation
