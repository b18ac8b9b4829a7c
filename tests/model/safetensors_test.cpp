// The safetensors reader: each malformation of the format refused, each oddity accepted.
#include "model/safetensors.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "files.hpp"

namespace fovea::model {
namespace {

StoredTensors parse(const std::string& file) {
  const auto start = std::as_bytes(std::span(file)).first(std::min<std::size_t>(8, file.size()));
  const std::size_t length = safetensors_header_bytes(start, file.size(), "f.safetensors");
  // A copy of exactly the header's size on the heap, so that reading beyond it is seen.
  const auto copy = std::make_unique<char[]>(length);
  std::memcpy(copy.get(), file.data() + 8, length);
  return parse_safetensors({copy.get(), length}, file.size(), "f.safetensors");
}

StoredTensors parse_header(std::string_view header, std::string_view data = {}) {
  return parse(safetensors(header, data));
}

struct Malformed {
  const char* name;
  std::string file;
  const char* says;
};

std::string two(std::string_view a, std::string_view b, std::size_t bytes = 8) {
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)";
  header += a;
  header += R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)";
  header += b;
  header += "}}";
  return safetensors(header, std::string(bytes, '\0'));
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets,
                std::size_t bytes) {
  std::string header = R"({"a":{"dtype":")";
  header += dtype;
  header += R"(","shape":)";
  header += shape;
  header += R"(,"data_offsets":)";
  header += offsets;
  header += "}}";
  return safetensors(header, std::string(bytes, '\0'));
}

std::vector<Malformed> malformed() {
  std::string huge_length = safetensors("{}");
  huge_length[4] = '\x01';
  std::string too_long = safetensors("{}");
  too_long[0] = '\x03';
  std::string limit(8 + 64, ' ');
  const std::uint64_t above_limit = 100'000'001;
  std::memcpy(limit.data(), &above_limit, sizeof(above_limit));
  return {
      {"Empty", "", "0 bytes are too short"},
      {"SevenBytes", std::string(7, '\0'), "7 bytes are too short"},
      {"LengthAboveLimit", limit, "100000001 bytes long (at most 100000000)"},
      {"LengthAbsurd", huge_length, "at most 100000000"},
      {"LengthPastEnd", too_long, "truncated?"},
      {"NoHeader", safetensors(""), "not JSON"},
      {"Garbage", safetensors("hello"), "not JSON"},
      {"TruncatedJson", safetensors(R"({"a":{"dtype":"F32")"), "not JSON"},
      {"TextAfterJson", safetensors("{} x"), "not JSON"},
      {"ZeroByteAfterJson", safetensors(std::string_view("{}\0", 3)), "zero byte"},
      {"ByteOrderMark", safetensors("\xef\xbb\xbf{}"), "byte order mark"},
      {"BadUtf8InName", safetensors("{\"\xff\":{}}"), "not JSON"},
      {"BadUtf8Overlong", safetensors("{\"\xc0\xaf\":{}}"), "not JSON"},
      {"BadUtf8Surrogate", safetensors("{\"\xed\xa0\x80\":{}}"), "not JSON"},
      {"BadUtf8Outside", safetensors("{}\x80"), "not JSON"},
      {"LoneEscapedSurrogate", safetensors(R"({"\ud800":{}})"), "not JSON"},
      {"RootIsList", safetensors("[]"), "expected an object"},
      {"RootIsNumber", safetensors("1"), "expected an object"},
      {"TensorIsNumber", safetensors(R"({"a":1})"), "\"a\": a number, expected an object"},
      {"TensorIsList", safetensors(R"({"a":[]})"), "\"a\": a list, expected an object"},
      {"MetadataIsList", safetensors(R"({"__metadata__":[]})"), "__metadata__ is a list"},
      {"MetadataNumber", safetensors(R"({"__metadata__":{"k":1}})"), "expected a string"},
      {"MetadataNull", safetensors(R"({"__metadata__":{"k":null}})"), "expected a string"},
      {"MetadataNested", safetensors(R"({"__metadata__":{"k":{}}})"), "expected a string"},
      {"MetadataTwice", safetensors(R"({"__metadata__":{},"__metadata__":{}})"), "appears twice"},
      {"MetadataKeyTwice", safetensors(R"({"__metadata__":{"k":"a","k":"b"}})"), "appears twice"},
      {"TensorTwice",
       safetensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                   R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "tensor \"a\": appears twice"},
      {"FieldTwice",
       safetensors(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "key \"dtype\" appears twice"},
      {"ShapeTwice",
       safetensors(R"({"a":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})"),
       "key \"shape\" appears twice"},
      {"UnknownDtype", one("F31", "[1]", "[0,4]", 4), "unknown dtype \"F31\""},
      {"LowerCaseDtype", one("f32", "[1]", "[0,4]", 4), "unknown dtype \"f32\""},
      {"DtypeNumber", safetensors(R"({"a":{"dtype":1,"shape":[],"data_offsets":[0,4]}})"),
       "dtype is a number"},
      {"NoDtype", safetensors(R"({"a":{"shape":[0],"data_offsets":[0,0]}})"), "missing"},
      {"NoShape", safetensors(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), "missing"},
      {"NoOffsets", safetensors(R"({"a":{"dtype":"U8","shape":[0]}})"), "missing"},
      {"NegativeDim", one("F32", "[-1]", "[0,4]", 4), "a negative number in shape"},
      {"FractionalDim", one("F32", "[1.0]", "[0,4]", 4), "not a 64-bit integer in shape"},
      {"DimBeyond64Bits", one("F32", "[18446744073709551616]", "[0,4]", 4), "in shape"},
      {"DimString", one("F32", "[\"1\"]", "[0,4]", 4), "a string in shape"},
      {"ShapeNumber", one("F32", "1", "[0,4]", 4), "a number in shape"},
      {"ShapeNested", one("F32", "[[1]]", "[0,4]", 4), "a list in shape"},
      {"NegativeOffset", one("F32", "[1]", "[-4,0]", 4), "a negative number in data_offsets"},
      {"OneOffset", one("F32", "[1]", "[4]", 4), "not two numbers"},
      {"ThreeOffsets", one("F32", "[1]", "[0,4,4]", 4), "not two numbers"},
      {"OffsetsObject", one("F32", "[1]", "{}", 4), "an object in data_offsets"},
      {"FirstNotZero", one("F32", "[1]", "[4,8]", 8), "leaves a gap"},
      {"Gap", two("[0,4]", "[8,12]", 12), "tensor \"b\" with data_offsets [8, 12]: leaves a gap"},
      {"Overlap", two("[0,4]", "[2,6]", 6), "tensor \"b\" with data_offsets [2, 6]: overlaps"},
      {"Same", two("[0,4]", "[0,4]", 4), "overlaps"},
      {"EndBeforeBegin", one("F32", "[1]", "[4,0]", 4), "ends before it begins"},
      {"PastEnd", one("F32", "[2]", "[0,8]", 4), "ends past the file's data of 4 bytes"},
      {"EndAbsurd", one("F32", "[1]", "[0,18446744073709551615]", 4), "ends past"},
      {"ShapeOverflow", one("U8", "[4294967296,4294967296,4]", "[0,0]", 0), "overflows"},
      {"ShapeOverflowThenZero", one("U8", "[4294967296,4294967296,0]", "[0,0]", 0), "overflows"},
      {"ByteOverflow", one("F64", "[4611686018427387904]", "[0,0]", 0), "overflows"},
      {"WrongSize", one("F32", "[2]", "[0,4]", 4),
       "holds 4 bytes, but its shape and dtype F32 need"},
      {"WrongSizeForDtype", one("F16", "[1]", "[0,4]", 4), "need 2"},
      {"ZeroDimWithBytes", one("F32", "[0]", "[0,4]", 4), "need 0"},
      {"SubByteMisaligned", one("F4", "[3]", "[0,2]", 2), "not a whole number of bytes"},
      {"SixBitMisaligned", one("F6_E2M3", "[2]", "[0,2]", 2), "not a whole number of bytes"},
      {"BytesAfterLast", one("F32", "[1]", "[0,4]", 5), "1 bytes after the last tensor"},
      {"BytesWithoutTensor", safetensors("{}", "x"), "1 bytes after the last tensor"},
      {"UnknownFieldTooDeep",
       safetensors(R"({"a":{"x":)" + std::string(40, '[') + std::string(40, ']') + "}}"), "deep"},
      {"DeepNesting", safetensors(std::string(100000, '{')), "not JSON"},
  };
}

class MalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedTest, IsRefusedWithItsPlace) {
  const std::string error = error_of([] { (void)parse(GetParam().file); });
  EXPECT_TRUE(contains(error, GetParam().says)) << error;
  EXPECT_TRUE(error.starts_with("f.safetensors: ")) << error;
  EXPECT_TRUE(contains(error, "byte")) << error;
}

INSTANTIATE_TEST_SUITE_P(Safetensors, MalformedTest, testing::ValuesIn(malformed()),
                         [](const auto& test) { return test.param.name; });

TEST(SafetensorsTest, RefusesTooManyDimensions) {
  std::string shape = "[1";
  for (int dim = 0; dim < 300; ++dim) {
    shape += ",1";
  }
  const std::string error = error_of([&] { (void)parse(one("U8", shape + "]", "[0,1]", 1)); });
  EXPECT_TRUE(contains(error, "more than 256 dimensions")) << error;
}

TEST(SafetensorsTest, NamesTheByteWithinTheFile) {
  // 8 bytes of length, then {"a":{"dtype":"F31" : the string ends at byte 8 + 19.
  const std::string error = error_of([] { (void)parse(one("F31", "[1]", "[0,4]", 4)); });
  EXPECT_TRUE(contains(error, "at byte 27: tensor \"a\"")) << error;
}

TEST(SafetensorsTest, AcceptsEmptyAndPadded) {
  EXPECT_TRUE(parse_header("{}").empty());
  EXPECT_TRUE(parse_header("{}   \n\t ").empty());
  EXPECT_TRUE(parse_header("  \n{}").empty());
  EXPECT_TRUE(parse_header(R"({"__metadata__":{"format":"pt"}})").empty());
  EXPECT_TRUE(parse_header(R"({"__metadata__":null})").empty());
}

TEST(SafetensorsTest, AcceptsUnsortedKeysScalarsAndZeroDims) {
  const StoredTensors tensors =
      parse_header(R"({"z":{"data_offsets":[0,8],"shape":[2,1],"dtype":"F32"},)"
                   R"("b":{"dtype":"I64","shape":[],"data_offsets":[10,18]},)"
                   R"("c":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[10,10]},)"
                   R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]}})",
                   std::string(18, 'x'));
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors.at("z").shape, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(tensors.at("z").shape_text(), "[2, 1]");
  EXPECT_EQ(tensors.at("b").shape_text(), "[]");
  EXPECT_EQ(tensors.at("z").float_dtype(), DType::kF32);
  EXPECT_EQ(tensors.at("a").float_dtype(), DType::kBF16);
  EXPECT_EQ(tensors.at("b").float_dtype(), std::nullopt);
}

TEST(SafetensorsTest, AcceptsEveryDtypeByItsSize) {
  const std::pair<const char*, std::size_t> kinds[] = {
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [dtype, bits] : kinds) {
    const std::size_t bytes = 8 * bits / 8;
    const StoredTensors tensors =
        parse(one(dtype, "[8]", "[0," + std::to_string(bytes) + "]", bytes));
    EXPECT_EQ(tensors.at("a").dtype, dtype);
  }
}

TEST(SafetensorsTest, SkipsUnknownFields) {
  const StoredTensors tensors = parse_header(
      R"({"a":{"x":[1,{"y":[true,null,-1,1.5,"s"]}],"dtype":"U8","u":{},"shape":[1],"v":1e3,)"
      R"("data_offsets":[0,1]}})",
      "7");
  EXPECT_EQ(tensors.at("a").shape, (std::vector<std::uint64_t>{1}));
}

TEST(SafetensorsTest, OffsetsAreInTheFile) {
  const std::string file = safetensors(R"({"odd":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                       R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                       "xabcd");
  const TemporaryFolder folder;
  write_text(folder.path() / "m.safetensors", file);
  const SafetensorsFile opened(folder.path() / "m.safetensors");
  const StoredTensor& tensor = opened.tensors().at("f");
  EXPECT_EQ(file.substr(tensor.offset, tensor.bytes), "abcd");
}

TEST(SafetensorsTest, NamesTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "broken.safetensors";
  write_text(path, "short");
  const std::string error = error_of([&] { const SafetensorsFile file(path); });
  EXPECT_TRUE(error.starts_with(path.string() + ": ")) << error;
}

}  // namespace
}  // namespace fovea::model
