// Fat binaries as nvcc writes them, and damaged ones; LZ4 blocks.
#include "lab/programs/fatbin.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fovea/error.hpp"
#include "lab/programs/lz4.hpp"

namespace fovea::programs {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kLz4 = 0x2000;
constexpr std::uint64_t kZstd = 0x8000;
constexpr std::uint64_t kSpecific = 0x10'0000;

Bytes bytes_of(const std::string& text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <typename Number>
void put(Bytes& bytes, std::size_t offset, Number number) {
  std::memcpy(&bytes.at(offset), &number, sizeof(number));
}

struct EntryText {
  std::uint16_t kind = 1;  // PTX
  std::uint32_t arch = 90;
  std::uint64_t flags = 0x11;
  Bytes payload{};
  std::uint64_t unpacked = 0;
  std::size_t options = 0;  // bytes between the header and the payload
};

Bytes fatbin(const std::vector<EntryText>& entries) {
  constexpr std::size_t kHeader = 64;
  Bytes bytes(kFatbinHeaderBytes);
  for (const EntryText& entry : entries) {
    const std::size_t at = bytes.size();
    const std::size_t padded = (entry.payload.size() + 7) / 8 * 8;
    bytes.resize(at + kHeader + entry.options + padded);
    put(bytes, at, entry.kind);
    put(bytes, at + 4, static_cast<std::uint32_t>(kHeader + entry.options));
    put(bytes, at + 8, std::uint64_t{padded});
    put(bytes, at + 16, static_cast<std::uint32_t>(entry.unpacked != 0 ? entry.payload.size() : 0));
    put(bytes, at + 28, entry.arch);
    put(bytes, at + 40, entry.flags);
    put(bytes, at + 56, entry.unpacked);
    std::ranges::copy(entry.payload,
                      bytes.begin() + static_cast<std::ptrdiff_t>(at + kHeader + entry.options));
  }
  put(bytes, 0, kFatbinMagic);
  put(bytes, 4, std::uint16_t{1});
  put(bytes, 6, static_cast<std::uint16_t>(kFatbinHeaderBytes));
  put(bytes, 8, std::uint64_t{bytes.size() - kFatbinHeaderBytes});
  return bytes;
}

// A block of four literals and a copy that overlaps itself: "abcabcabcabc!".
const std::string kBlock(
    "\x36"
    "abc"
    "\x03\x00"
    "\x10"
    "!",
    8);
constexpr std::size_t kBlockText = 14;

TEST(Lz4, UnpacksLiteralsAndCopiesThatOverlap) {
  Bytes text(kBlockText);
  unpack_lz4(bytes_of(kBlock), text);
  EXPECT_EQ(text, bytes_of("abcabcabcabca!"));
}

TEST(Lz4, RefusesDamage) {
  Bytes text(kBlockText);
  for (std::size_t size = 0; size < kBlock.size(); ++size) {
    EXPECT_THROW(unpack_lz4(bytes_of(kBlock.substr(0, size)), text), Error) << size;
  }
  for (const std::size_t size : {kBlockText - 1, kBlockText + 1}) {
    Bytes other(size);
    EXPECT_THROW(unpack_lz4(bytes_of(kBlock), other), Error) << size;
  }
  EXPECT_THROW(unpack_lz4(bytes_of(std::string("\x30"
                                               "abc"
                                               "\x04\x00",
                                               6)),
                          text),
               Error);
  EXPECT_THROW(unpack_lz4(bytes_of(std::string("\x30"
                                               "abc"
                                               "\x00\x00",
                                               6)),
                          text),
               Error);
  EXPECT_THROW(unpack_lz4(bytes_of("\xf0\xff\xff"), text), Error);
}

TEST(Fatbin, ListsEntriesBehindOptions) {
  const Bytes bytes = fatbin({{.kind = 2, .payload = bytes_of("code")},
                              {.payload = bytes_of("text"), .options = 16},
                              {.arch = 100, .flags = kSpecific, .payload = bytes_of("other")}});
  const std::vector<CodeEntry> entries = read_fatbin(bytes);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_FALSE(entries[0].is_ptx);
  EXPECT_TRUE(entries[1].is_ptx);
  EXPECT_EQ(unpack_ptx(entries[1], 100), "text");
  EXPECT_EQ(entries[2].target(), "sm_100a");
  EXPECT_EQ(unpack_ptx(entries[2], 100), "other");
  EXPECT_TRUE(entries[1].runs_on(100));
  EXPECT_FALSE(entries[1].runs_on(80));
  EXPECT_FALSE(entries[2].runs_on(103));
}

TEST(Fatbin, UnpacksLz4AndRefusesWhatIsTooLong) {
  const Bytes bytes =
      fatbin({{.flags = kLz4, .payload = bytes_of(kBlock), .unpacked = kBlockText}});
  const CodeEntry entry = read_fatbin(bytes).front();
  EXPECT_EQ(unpack_ptx(entry, 100), "abcabcabcabca!");
  EXPECT_THROW((void)unpack_ptx(entry, kBlockText - 1), Error);
}

TEST(Fatbin, RefusesDamagedZstd) {
  const Bytes bytes = fatbin({{.flags = kZstd, .payload = bytes_of("nothing"), .unpacked = 20}});
  EXPECT_THROW((void)unpack_ptx(read_fatbin(bytes).front(), 100), Error);
}

TEST(Fatbin, RefusesEveryBeginningOfOne) {
  const Bytes bytes = fatbin({{.payload = bytes_of("text")}, {.payload = bytes_of("other")}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW((void)read_fatbin(std::span(bytes).first(size)), Error) << size;
  }
}

TEST(Fatbin, ReadsNothingOutsideOfDamagedOnes) {
  const Bytes right = fatbin({{.flags = kLz4, .payload = bytes_of(kBlock), .unpacked = kBlockText},
                              {.payload = bytes_of("other")}});
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes = right;
    for (int i = 0; i < 3; ++i) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    try {
      for (const CodeEntry& entry : read_fatbin(bytes)) {
        (void)unpack_ptx(entry, 4096);
      }
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace fovea::programs
