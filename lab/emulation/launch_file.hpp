// launch.json: buffers, and the kernels that are launched on them. docs/emulator.md describes it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fovea_emulator/device.hpp"
#include "fovea_emulator/tensor_map.hpp"
#include "lab/emulation/content.hpp"

namespace fovea::emulation {

/// What should be in a buffer in the end: the same bits, or numbers that are near.
struct Comparison {
  std::vector<std::byte> wanted{};
  bool is_exact = true;
  double absolute = 0;
  double relative = 0;  // of the wanted number
};

struct Buffer {
  std::string name{};
  ElementType type = ElementType::kU8;
  Shape shape{};
  std::optional<std::vector<std::byte>> content{};  // none: not written
  std::optional<Comparison> compare{};
  std::string write{};  // where to, in the end, below the folder; empty: nowhere
};

struct Argument;

/// The address of a byte of a buffer.
struct BufferAddress {
  std::size_t buffer = 0;  // its index
  std::uint64_t offset = 0;
};

struct TensorMapArgument {
  BufferAddress address{};
  emu::TensorMapDesc desc{};  // whose address is not known yet
};

/// Fields at their offsets; what is between them is zero.
struct StructArgument {
  std::vector<std::size_t> offsets{};
  std::vector<Argument> fields;
};

struct Argument {
  std::variant<std::vector<std::byte>, BufferAddress, TensorMapArgument, StructArgument> what{};
  std::string path{};  // of its field, for messages
};

class Field;

/// The argument of a field, in which it may name these buffers. `is_member`: of a struct, so it has
/// a place. Throws fovea::Error with the field's path.
[[nodiscard]] Argument read_argument(const Field& field, const std::vector<Buffer>& buffers,
                                     bool is_member = false);

struct LaunchText {
  std::string kernel{};  // "" where it does not say
  emu::LaunchConfig config{};
  std::vector<Argument> arguments{};
  std::string path{};
};

struct LaunchFileOptions {
  bool any_path = false;  // it may name files elsewhere than below its folder
  std::size_t most_memory = kMaxMemory;
  std::filesystem::path ptx{};  // the launch writes to neither it nor itself
  bool overwrite = false;       // it may write to files that are no arrays of the same kind
};

struct LaunchFile {
  std::string name{};  // of the file, for messages
  LaunchFolder folder;
  MemoryBudget memory;  // of which its buffers' content has taken some
  std::vector<Buffer> buffers{};
  std::vector<LaunchText> launches{};
};

/// Throws fovea::Error, which names the file and the field, for what is not as documented.
[[nodiscard]] LaunchFile parse_launch_file(std::string_view text, const std::string& name,
                                           const std::filesystem::path& folder,
                                           const LaunchFileOptions& options = {});
/// Files that it names are relative to its folder.
[[nodiscard]] LaunchFile read_launch_file(const std::filesystem::path& path,
                                          const LaunchFileOptions& options);

}  // namespace fovea::emulation
