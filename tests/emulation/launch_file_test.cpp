// launch.json: what it says, and what is told of one that is wrong.
#include "lab/emulation/launch_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea/error.hpp"

namespace fovea::emulation {
namespace {

LaunchFile parse(const std::string& text) {
  return parse_launch_file(text, "launch.json", "/");
}

std::string message_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing is wrong";
}

// A document with this buffer.
std::string with_buffer(const std::string& buffer) {
  return fmt::format(R"({{"buffers": {{"x": {}}}, "launch": {{"grid": 1, "block": 1}}}})", buffer);
}

// A document with this argument of its launch.
std::string with_argument(const std::string& argument) {
  return fmt::format(
      R"({{"buffers": {{"x": {{"type": "bf16", "shape": [8, 64]}}}},
           "launches": [{{"grid": 1, "block": 1}}, {{"grid": 1, "block": 1, "arguments": [{}]}}]}})",
      argument);
}

template <typename T>
std::vector<T> numbers(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <typename T>
std::vector<T> content(const std::string& buffer) {
  return numbers<T>(parse(with_buffer(buffer)).buffers.front().content.value());
}

TEST(LaunchFileTest, ALaunchIsAsItSays) {
  const LaunchFile file = parse(R"({"launches": [
    {"kernel": "a", "grid": 6, "block": [32, 2], "cluster": [3], "shared_bytes": 64},
    {"grid": [1, 2, 3], "block": [1], "dependent": true}]})");
  ASSERT_EQ(file.launches.size(), 2U);
  const LaunchText& first = file.launches[0];
  EXPECT_EQ(first.kernel, "a");
  EXPECT_EQ(first.config.grid, (std::array<std::uint32_t, 3>{6, 1, 1}));
  EXPECT_EQ(first.config.block, (std::array<std::uint32_t, 3>{32, 2, 1}));
  EXPECT_EQ(first.config.cluster, (std::array<std::uint32_t, 3>{3, 1, 1}));
  EXPECT_EQ(first.config.dynamic_shared_bytes, 64U);
  EXPECT_FALSE(first.config.is_dependent);
  EXPECT_EQ(file.launches[1].kernel, "");
  EXPECT_EQ(file.launches[1].config.grid, (std::array<std::uint32_t, 3>{1, 2, 3}));
  EXPECT_TRUE(file.launches[1].config.is_dependent);
}

TEST(LaunchFileTest, BuffersHoldAddressesOfBuffers) {
  const auto text_of = [](const std::string& kind, const std::string& list) {
    return fmt::format(R"({{"buffers": {{"to": {{{} "content": {{"addresses": {}}}}},
                                        "x": {{"bytes": 64}}, "y": {{"bytes": 64}}}},
                           "launch": {{"grid": 1, "block": 1}}}})",
                       kind, list);
  };
  const LaunchFile file = parse(text_of("", R"([{"buffer": "y"}, {"buffer": "x", "offset": 16}])"));
  const Buffer& to = file.buffers.front();
  EXPECT_EQ(to.type, ElementType::kU64);
  EXPECT_EQ(to.shape, Shape({2}));
  ASSERT_EQ(to.addresses.size(), 2U);
  EXPECT_EQ(file.buffers[to.addresses[0].buffer].name, "y");
  EXPECT_EQ(file.buffers[to.addresses[1].buffer].name, "x");
  EXPECT_EQ(to.addresses[1].offset, 16U);
  EXPECT_EQ(parse(text_of(R"("bytes": 16,)", R"([{"buffer": "y"}, {"buffer": "x"}])"))
                .buffers.front()
                .shape,
            Shape({2}));
  EXPECT_NE(message_of(text_of(R"("bytes": 12,)", R"([{"buffer": "y"}])"))
                .find("12 is not a multiple of the 8 bytes of u64"),
            std::string::npos);
  EXPECT_NE(
      message_of(text_of(R"("type": "u8", "bytes": 16,)", "[]")).find("addresses are u64, not u8"),
      std::string::npos);
  EXPECT_NE(message_of(text_of("", R"([{"buffer": "z"}])")).find("unknown buffer \"z\""),
            std::string::npos);
  EXPECT_NE(message_of(text_of(R"("type": "f32",)", "[]")).find("addresses are u64, not f32"),
            std::string::npos);
  EXPECT_NE(message_of(text_of(R"("shape": [3],)", R"([{"buffer": "x"}])"))
                .find("expected 3 addresses for the shape"),
            std::string::npos);
}

TEST(LaunchFileTest, BuffersHoldWhatIsGenerated) {
  EXPECT_FALSE(parse(with_buffer(R"({"bytes": 7})")).buffers.front().content.has_value());
  EXPECT_EQ(content<float>(R"({"type": "f32", "shape": [2, 1], "content": "ones"})"),
            (std::vector<float>{1, 1}));
  EXPECT_EQ(content<std::uint8_t>(R"({"bytes": 3, "content": "zeros"})"),
            (std::vector<std::uint8_t>{0, 0, 0}));
  EXPECT_EQ(content<std::int32_t>(
                R"({"type": "s32", "shape": 3, "content": {"iota": {"start": 5, "step": -3}}})"),
            (std::vector<std::int32_t>{5, 2, -1}));
  EXPECT_EQ(content<std::uint16_t>(R"({"type": "bf16", "content": {"values": [1, -2.5, "inf"]}})"),
            (std::vector<std::uint16_t>{0x3f80, 0xc020, 0x7f80}));
  EXPECT_EQ(
      content<std::uint16_t>(R"({"type": "f16", "content": {"values": [1, 65504, "0x7e01"]}})"),
      (std::vector<std::uint16_t>{0x3c00, 0x7bff, 0x7e01}));
  EXPECT_EQ(
      content<std::uint64_t>(R"({"type": "u64", "content": {"values": [18446744073709551615]}})"),
      (std::vector<std::uint64_t>{std::numeric_limits<std::uint64_t>::max()}));
}

TEST(LaunchFileTest, RandomNumbersAreOfTheirDistributionAndSeed) {
  const auto draw = [](const std::string& generator) {
    return content<double>(R"({"type": "f64", "shape": 20000, "content": )" + generator + "}");
  };
  for (const auto* seed : {"1", "2", "3"}) {
    const auto uniform =
        draw(fmt::format(R"({{"uniform": {{"low": 2, "high": 6, "seed": {}}}}})", seed));
    const auto normal =
        draw(fmt::format(R"({{"normal": {{"mean": 3, "deviation": 2, "seed": {}}}}})", seed));
    for (const auto& [values, deviation] :
         {std::pair{&uniform, 4 / std::sqrt(12.0)}, std::pair{&normal, 2.0}}) {
      double mean = 0;
      double square = 0;
      for (const double value : *values) {
        mean += value / 20000;
        square += value * value / 20000;
      }
      EXPECT_NEAR(mean, values == &uniform ? 4 : 3, 0.06);
      EXPECT_NEAR(std::sqrt(square - mean * mean), deviation, 0.05);
    }
    EXPECT_GE(*std::ranges::min_element(uniform), 2);
    EXPECT_LT(*std::ranges::max_element(uniform), 6);
    EXPECT_EQ(normal, draw(fmt::format(R"({{"normal": {{"mean": 3, "deviation": 2, "seed": {}}}}})",
                                       seed)));
  }
  EXPECT_NE(draw(R"({"normal": {"seed": 1}})"), draw(R"({"normal": {"seed": 2}})"));
  const auto dice = content<std::uint8_t>(
      R"({"type": "u8", "shape": 600, "content": {"uniform": {"low": 1, "high": 6}}})");
  for (std::uint8_t side = 0; side <= 7; ++side) {
    EXPECT_EQ(std::ranges::count(dice, side) > 50, side >= 1 && side <= 6) << int{side};
  }
}

TEST(LaunchFileTest, ArgumentsAreBytesAddressesMapsAndStructs) {
  const auto read = [](const std::string& text) {
    return parse(with_argument(text)).launches[1].arguments.front();
  };
  EXPECT_EQ(numbers<std::int32_t>(std::get<0>(read(R"({"s32": -7})").what)),
            std::vector<std::int32_t>{-7});
  EXPECT_EQ(numbers<float>(std::get<0>(read(R"({"f32": [0.5, "-inf"]})").what)),
            (std::vector<float>{0.5F, -std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(std::get<0>(read(R"({"bytes": "00ff"})").what),
            (std::vector<std::byte>{std::byte{0}, std::byte{0xff}}));
  EXPECT_EQ(std::get<BufferAddress>(read(R"({"buffer": "x", "offset": 32})").what).offset, 32U);
  const auto fields = std::get<StructArgument>(
      read(R"({"struct": [{"at": 0, "buffer": "x"}, {"at": 8, "u16": 3}]})").what);
  EXPECT_EQ(fields.offsets, (std::vector<std::size_t>{0, 8}));
  EXPECT_EQ(numbers<std::uint16_t>(std::get<0>(fields.fields[1].what)),
            std::vector<std::uint16_t>{3});
}

TEST(LaunchFileTest, ATensorMapIsOfItsBufferUnlessItSaysOtherwise) {
  const auto read = [](const std::string& text) {
    const Argument argument = parse(with_argument(text)).launches[1].arguments.front();
    return std::get<TensorMapArgument>(argument.what);
  };
  const auto plain = read(R"({"tensor_map": {"buffer": "x", "box": [32, 4]}})");
  EXPECT_EQ(plain.desc.type, emu::TensorMapType::kBF16);
  EXPECT_EQ(plain.desc.rank, 2);
  EXPECT_EQ(plain.desc.dims, (std::array<std::uint64_t, 5>{64, 8}));  // innermost first
  EXPECT_EQ(plain.desc.strides, (std::array<std::uint64_t, 4>{128}));
  EXPECT_EQ(plain.desc.box, (std::array<std::uint32_t, 5>{32, 4}));
  EXPECT_EQ(plain.desc.swizzle, emu::TensorMapSwizzle::kNone);
  const auto full = read(
      R"({"tensor_map": {"buffer": "x", "offset": 256, "type": "e4m3", "dims": [16, 4, 2],
          "strides": [32, 256], "box": [16, 2, 1], "element_strides": [1, 2, 1], "swizzle": "64B",
          "fill": "nan"}})");
  EXPECT_EQ(full.address.offset, 256U);
  EXPECT_EQ(full.desc.type, emu::TensorMapType::kU8);
  EXPECT_EQ(full.desc.rank, 3);
  EXPECT_EQ(full.desc.strides, (std::array<std::uint64_t, 4>{32, 256}));
  EXPECT_EQ(full.desc.element_strides[1], 2U);
  EXPECT_EQ(full.desc.swizzle, emu::TensorMapSwizzle::k64);
  EXPECT_EQ(full.desc.fill, emu::TensorMapFill::kNan);
}

// A text, and a part of what is said of it.
struct Wrong {
  std::string text;
  std::string said;
};

TEST(LaunchFileTest, MessagesNameTheField) {
  const std::vector<Wrong> wrong = {
      {"[1]", "launch.json: expected a JSON object"},
      {"{}", "a field \"launch\" or a list"},
      {R"({"launches": []})", "launches: there must be at least one launch"},
      {R"({"launch": {"grid": 1}})", "launch: the field \"block\" is missing"},
      {R"({"launch": {"gird": 1, "block": 1}})",
       "launch: unknown field \"gird\"; did you mean grid?"},
      {R"({"launch": {"grid": [1, 1, 1, 1], "block": 1}})",
       "launch.grid: expected 1 to 3 numbers, got 4"},
      {R"({"launch": {"grid": 0, "block": 1}})", "launch.grid: expected a whole number from 1"},
      {R"({"launch": {"grid": 1.5, "block": 1}})",
       "launch.grid: expected a whole number from 1 to 4294967295, got 1.5"},
      {R"({"launch": {"grid": 1, "block": 1, "dependent": 1}})",
       "launch.dependent: expected true or false"},
      {R"({"launch": {"grid": 1, "block": 1, "dependent": true}})",
       "launch.dependent: the first launch cannot"},
      {with_buffer("3"), "buffers.x: expected an object, got 3"},
      {with_buffer("{}"), "buffers.x: the buffer needs a shape"},
      {with_buffer(R"({"bytes": 4, "shape": 2})"), "buffers.x.bytes: cannot be combined"},
      {with_buffer(R"({"bytes": 0})"), "buffers.x: the buffer must not be empty"},
      {with_buffer(R"({"bytes": 6, "type": "f32"})"),
       "buffers.x.bytes: 6 is not a multiple of the 4 bytes of f32"},
      {with_buffer(R"({"shape": [4], "type": "float"})"),
       "buffers.x.type: \"float\" is not one of u8, b8, s8"},
      {with_buffer(R"({"shape": [4294967296, 4294967296]})"),
       "buffers.x.shape: shape [4294967296, 4294967296]"},
      {with_buffer(R"({"shape": [1099511627776, 2]})"),
       "buffers.x.shape: [1099511627776, 2] of u8 do not fit into memory"},
      {with_buffer(R"({"shape": 2, "content": "twos"})"),
       "buffers.x.content: \"twos\" is not one of zeros, ones"},
      {with_buffer(R"({"shape": 2, "content": {"iota": {}, "values": []}})"),
       "buffers.x.content: expected exactly one of the fields file"},
      {with_buffer(R"({"shape": 2, "content": {"values": [1]}})"),
       "buffers.x.content.values: expected 2 numbers for the shape [2], got 1"},
      {with_buffer(R"({"content": {"values": [1, 256]}})"),
       "buffers.x.content.values[1]: 256 is not a valid u8"},
      {with_buffer(R"({"content": {"values": [1.5]}})"),
       "buffers.x.content.values[0]: 1.5 is not a valid u8"},
      {with_buffer(R"({"content": {"values": ["nan"]}})"),
       "buffers.x.content.values[0]: \"nan\" is not a valid u8"},
      {with_buffer(R"({"content": {"values": ["0x100"]}})"), "\"0x100\" is not a valid u8"},
      {with_buffer(R"({"shape": 2, "content": {"uniform": {}}})"),
       "uniform: the field \"low\" is missing"},
      {with_buffer(R"({"shape": 2, "content": {"uniform": {"low": 2, "high": 1}}})"),
       "uniform: low must not be above high"},
      {with_buffer(R"({"shape": 2, "content": {"file": "none.npy"}})"),
       "buffers.x.content.file: /none.npy: cannot"},
      {with_buffer(R"({"shape": 2, "compare": {"values": [1, 2], "absolute": -1}})"),
       "buffers.x.compare.absolute: a tolerance"},
      {with_buffer(R"({"shape": 2, "compare": {"values": [1]}})"),
       "buffers.x.compare.values: expected 2 numbers for the shape [2], got 1"},
      {with_argument("3"), "launches[1].arguments[0]: expected an object"},
      {with_argument("{}"), "launches[1].arguments[0]: expected exactly one of the fields u8"},
      {with_argument(R"({"s32": 1, "f32": 2})"), "got s32 and f32"},
      {with_argument(R"({"s32": 2147483648})"),
       "launches[1].arguments[0].s32: 2147483648 is not a valid s32"},
      {with_argument(R"({"s32": [1, "a"]})"),
       "launches[1].arguments[0].s32[1]: \"a\" is not a valid s32"},
      {with_argument(R"({"s32": 1, "offset": 4})"),
       "arguments[0].offset: an offset is only allowed"},
      {with_argument(R"({"s32": 1, "at": 4})"), "unknown field \"at\""},
      {with_argument(R"({"buffer": "y"})"),
       "arguments[0].buffer: unknown buffer \"y\"; the buffers are x"},
      {with_argument(R"({"bytes": "0g"})"),
       "arguments[0].bytes: \"0g\" is not a byte of two hexadecimal digits"},
      {with_argument(R"({"bytes": "000"})"), "hexadecimal digits must be even"},
      {with_argument(R"({"struct": [{"s32": 1}]})"),
       "arguments[0].struct[0]: the field \"at\" is missing"},
      {with_argument(R"({"tensor_map": {"buffer": "x"}})"),
       "arguments[0].tensor_map: the field \"box\" is missing"},
      {with_argument(R"({"tensor_map": {"buffer": "x", "box": [1]}})"),
       "tensor_map.box: expected 2 numbers, got 1"},
      {with_argument(R"({"tensor_map": {"buffer": "x", "box": [8, 8], "swizzle": "256B"}})"),
       "tensor_map.swizzle: \"256B\" is not one of none, 32B"},
  };
  for (const auto& [text, said] : wrong) {
    const std::string message = message_of(text);
    EXPECT_NE(message.find(said), std::string::npos) << text << "\n" << message;
    EXPECT_TRUE(message.starts_with("launch.json: ")) << message;
  }
}

}  // namespace
}  // namespace fovea::emulation
