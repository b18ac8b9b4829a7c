// Fat binaries: the container in which nvcc stores the machine code and the PTX of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::programs {

/// How the code of an entry is compressed.
enum class Packing : std::uint8_t { kNone, kLz4, kZstd };

/// Variants of an architecture: of one GPU alone (sm_90a), or of its family (sm_100f).
enum class Variant : std::uint8_t { kPlain, kSpecific, kFamily };

struct CodeEntry {
  bool is_ptx = false;  // otherwise machine code
  int arch = 0;         // 90 for sm_90
  Variant variant = Variant::kPlain;
  Packing packing = Packing::kNone;
  std::size_t bytes = 0;  // size of the unpacked code
  std::span<const std::byte> packed{};

  /// Returns "sm_90a".
  [[nodiscard]] std::string target() const;
  /// Whether a GPU of this architecture, such as 90, can run the code if it is PTX.
  [[nodiscard]] bool runs_on(int gpu) const;
};

/// The number with which a fat binary begins.
constexpr std::uint32_t kFatbinMagic = 0xBA55ED50;
constexpr std::size_t kFatbinHeaderBytes = 16;

/// Returns the size that the header announces, header included, or 0 if it is no fat binary.
[[nodiscard]] std::size_t fatbin_bytes(std::span<const std::byte, kFatbinHeaderBytes> header);

/// Lists the entries of one fat binary, or of several one after the other. Throws fovea::Error,
/// with the offset, where the bytes are no fat binary.
[[nodiscard]] std::vector<CodeEntry> read_fatbin(std::span<const std::byte> bytes);

/// Returns the text of a PTX entry. Throws fovea::Error if the data is damaged, or if the text has
/// more than `max_bytes` bytes.
[[nodiscard]] std::string unpack_ptx(const CodeEntry& entry, std::size_t max_bytes);

}  // namespace fovea::programs
