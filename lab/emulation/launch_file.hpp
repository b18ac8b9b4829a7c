// launch.json: buffers, and kernel launches that use them. docs/emulator.md describes the format.
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

/// The expected content of a buffer, which is compared bit by bit or with a tolerance.
struct Comparison {
  std::vector<std::byte> expected{};
  bool is_exact = true;
  double absolute = 0;
  double relative = 0;  // relative to the magnitude of the expected number
};

/// The address of a byte in a buffer.
struct BufferAddress {
  std::size_t buffer = 0;  // index of the buffer
  std::uint64_t offset = 0;
};

struct Buffer {
  std::string name{};
  ElementType type = ElementType::kU8;
  Shape shape{};
  std::optional<std::vector<std::byte>> content{};  // std::nullopt: the buffer is uninitialised
  std::vector<BufferAddress> addresses{};           // in place of content
  std::optional<Comparison> compare{};
  std::string write{};  // output file for the final content, relative to the folder; empty: none
};

struct Argument;

struct TensorMapArgument {
  BufferAddress address{};
  emu::TensorMapDesc desc{};  // the address is set at launch
};

/// A struct parameter: members at their offsets, with zeros between them.
struct StructArgument {
  std::vector<std::size_t> offsets{};
  std::vector<Argument> fields;
};

struct Argument {
  std::variant<std::vector<std::byte>, BufferAddress, TensorMapArgument, StructArgument> what{};
  std::string path{};  // path of its field, for messages
};

class Field;

/// Reads the fields "buffer" and "offset". Throws fovea::Error with the field's path.
[[nodiscard]] BufferAddress read_address(const Field& field, const std::vector<Buffer>& buffers);

/// Reads an argument, which may refer to these buffers. If `is_member`, the argument is a member of
/// a struct and must have an offset in it. Throws fovea::Error with the field's path.
[[nodiscard]] Argument read_argument(const Field& field, const std::vector<Buffer>& buffers,
                                     bool is_member = false);

struct LaunchText {
  std::string kernel{};  // empty if the launch does not name a kernel
  emu::LaunchConfig config{};
  std::vector<Argument> arguments{};
  std::string path{};
};

struct LaunchFileOptions {
  bool any_path = false;  // allows files outside the launch file's folder
  Values problem{};       // values for some fields of the file's problem
  Values macros{};        // other names that expressions may have
  /// Whether to read the content of buffers; without it, all buffers must have a shape.
  bool with_content = true;
  std::vector<std::string> other_fields{};  // fields of the document that others read
  std::size_t max_memory = kMaxMemory;
  std::filesystem::path ptx{};  // the PTX file, which must not be overwritten
  bool overwrite = false;       // allows replacing files that are not arrays of the same type and
                                // shape
};

struct LaunchFile {
  std::string name{};  // name of the file, for messages
  LaunchFolder folder;
  MemoryBudget memory;  // the budget that remains after reading the buffers' content
  std::vector<Buffer> buffers{};
  std::vector<LaunchText> launches{};
};

/// Reads the fields of the problem in a document, with these values for some of them. Throws
/// fovea::Error for a value of a field that there is not.
[[nodiscard]] Values read_problem(const Field& document, const Values& changes);

/// Reads the content of a buffer of this type and shape, without which it was read before; empty if
/// it has none. Throws fovea::Error with the field's path.
[[nodiscard]] std::vector<std::byte> read_buffer_content(const Field& field, const Buffer& buffer,
                                                         const Source& source);

/// Reads a launch file's document; `folder` has the files that it names. Throws fovea::Error, which
/// names the file and the field, if the document violates the documented format.
[[nodiscard]] LaunchFile read_launch_document(const nlohmann::json& document,
                                              const std::string& name,
                                              const std::filesystem::path& folder,
                                              const LaunchFileOptions& options);
/// Parses a launch file, and reads it.
[[nodiscard]] LaunchFile parse_launch_file(std::string_view text, const std::string& name,
                                           const std::filesystem::path& folder,
                                           const LaunchFileOptions& options = {});
/// Reads a launch file; files that it names are relative to its folder.
[[nodiscard]] LaunchFile read_launch_file(const std::filesystem::path& path,
                                          const LaunchFileOptions& options);

}  // namespace fovea::emulation
