// Fat binaries: the container in which nvcc stores the machine code and the PTX of kernels.
#include "lab/programs/fatbin.hpp"

#include <cstring>

#include <fmt/format.h>
#include <zstd.h>

#include "core/error.hpp"
#include "lab/programs/lz4.hpp"

namespace fovea::programs {
namespace {

// Numbers in the format, as nvcc 12 and 13 write them. Little-endian.
constexpr std::uint16_t kVersion = 1;
constexpr std::uint16_t kPtxKind = 1;
constexpr std::size_t kEntryHeaderBytes = 64;  // at least; names and options may follow
constexpr std::uint64_t kLz4Flag = 0x2000;
constexpr std::uint64_t kZstdFlag = 0x8000;
constexpr std::uint64_t kSpecificFlag = 0x10'0000;
constexpr std::uint64_t kFamilyFlag = 0x20'0000;

template <typename Number>
Number read(std::span<const std::byte> bytes, std::size_t offset) {
  Number number{};
  std::memcpy(&number, bytes.subspan(offset, sizeof(number)).data(), sizeof(number));
  return number;
}

CodeEntry read_entry(std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::size_t offset) {
  const auto flags = read<std::uint64_t>(header, 40);
  CodeEntry entry{.is_ptx = read<std::uint16_t>(header, 0) == kPtxKind,
                  .arch = static_cast<int>(read<std::uint32_t>(header, 28)),
                  .bytes = payload.size(),
                  .packed = payload};
  entry.variant = (flags & kSpecificFlag) != 0 ? Variant::kSpecific
                  : (flags & kFamilyFlag) != 0 ? Variant::kFamily
                                               : Variant::kPlain;
  if ((flags & (kLz4Flag | kZstdFlag)) != 0) {
    const auto packed = read<std::uint32_t>(header, 16);
    if (packed > payload.size()) {
      fail("the fat binary's entry at byte {} has {} bytes of compressed data, but {} bytes in all",
           offset, packed, payload.size());
    }
    entry.packing = (flags & kZstdFlag) != 0 ? Packing::kZstd : Packing::kLz4;
    entry.packed = payload.first(packed);
    entry.bytes = read<std::uint64_t>(header, 56);
  }
  return entry;
}

}  // namespace

std::string CodeEntry::target() const {
  const char* const suffix = variant == Variant::kSpecific ? "a"
                             : variant == Variant::kFamily ? "f"
                                                           : "";
  return fmt::format("sm_{}{}", arch, suffix);
}

bool CodeEntry::runs_on(int gpu) const {
  switch (variant) {
    case Variant::kSpecific:
      return arch == gpu;
    case Variant::kFamily:
      return arch / 10 == gpu / 10 && arch <= gpu;
    case Variant::kPlain:
      break;
  }
  return arch <= gpu;
}

std::size_t fatbin_bytes(std::span<const std::byte, kFatbinHeaderBytes> header) {
  const auto body = read<std::uint64_t>(header, 8);
  const std::size_t header_bytes = read<std::uint16_t>(header, 6);
  const bool is_fatbin = read<std::uint32_t>(header, 0) == kFatbinMagic &&
                         read<std::uint16_t>(header, 4) == kVersion &&
                         header_bytes >= kFatbinHeaderBytes && body <= SIZE_MAX - header_bytes;
  return is_fatbin ? header_bytes + static_cast<std::size_t>(body) : 0;
}

std::vector<CodeEntry> read_fatbin(std::span<const std::byte> bytes) {
  std::vector<CodeEntry> entries;
  std::size_t begin = 0;
  do {
    const std::size_t rest = bytes.size() - begin;
    const std::size_t size = rest < kFatbinHeaderBytes
                                 ? 0
                                 : fatbin_bytes(bytes.subspan(begin).first<kFatbinHeaderBytes>());
    if (size == 0) {
      fail("no fat binary begins at byte {}", begin);
    }
    if (size > rest) {
      fail("the fat binary at byte {} announces {} bytes, but only {} are there", begin, size,
           rest);
    }
    std::size_t position = begin + read<std::uint16_t>(bytes, begin + 6);
    const std::size_t end = begin + size;
    while (position < end) {
      if (end - position < kEntryHeaderBytes) {
        fail("the fat binary's entry at byte {} has no complete header", position);
      }
      const std::size_t header = read<std::uint32_t>(bytes, position + 4);
      const auto payload = read<std::uint64_t>(bytes, position + 8);
      if (header < kEntryHeaderBytes || header > end - position ||
          payload > end - position - header) {
        fail("the fat binary's entry at byte {} ends behind the fat binary", position);
      }
      entries.push_back(read_entry(bytes.subspan(position, header),
                                   bytes.subspan(position + header, payload), position));
      position += header + static_cast<std::size_t>(payload);
    }
    begin = end;
  } while (begin < bytes.size());
  return entries;
}

std::string unpack_ptx(const CodeEntry& entry, std::size_t max_bytes) {
  if (entry.bytes > max_bytes) {
    fail("the PTX for {} has {} bytes; expected at most {}", entry.target(), entry.bytes,
         max_bytes);
  }
  std::string text(entry.bytes, '\0');
  switch (entry.packing) {
    case Packing::kNone:
      std::memcpy(text.data(), entry.packed.data(), entry.bytes);
      break;
    case Packing::kLz4:
      unpack_lz4(entry.packed, std::as_writable_bytes(std::span(text)));
      break;
    case Packing::kZstd: {
      const std::size_t size =
          ZSTD_decompress(text.data(), text.size(), entry.packed.data(), entry.packed.size());
      if (ZSTD_isError(size) != 0 || size != text.size()) {
        fail("the PTX for {} cannot be decompressed: {}", entry.target(),
             ZSTD_isError(size) != 0 ? ZSTD_getErrorName(size) : "it has another size");
      }
      break;
    }
  }
  text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
  return text;
}

}  // namespace fovea::programs
