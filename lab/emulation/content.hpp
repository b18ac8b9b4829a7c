// The initial and the expected content of buffers: files, numbers in the document, and generated
// numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor_view.hpp"
#include "lab/emulation/elements.hpp"
#include "lab/emulation/field.hpp"
#include "lab/emulation/launch_folder.hpp"
#include "lab/emulation/limits.hpp"

namespace fovea::emulation {

/// A row-major array of numbers in memory.
struct Array {
  ElementType type = ElementType::kU8;
  Shape shape{};
  std::vector<std::byte> bytes{};
};

/// The files that a launch file may read, and the memory that it may use.
struct Source {
  const LaunchFolder& folder;
  MemoryBudget& memory;
  std::uint64_t seed = 0;  // added to the seeds of random content
};

/// The type and shape of an array, if known before its content is read.
struct ArrayKind {
  std::optional<ElementType> type{};
  std::optional<Shape> shape{};
};

/// Reads the array that a field describes: "zeros", "ones", or an object with one of the fields
/// file, values, iota, uniform, normal. A type or shape missing in `kind` is taken from the file or
/// from the number of values; without a file the type defaults to u8. `other_keys` lists other
/// fields that the object may have. Throws fovea::Error with the field's path.
[[nodiscard]] Array read_content(const Field& field, const ArrayKind& kind, const Source& source,
                                 const std::vector<std::string>& other_keys = {});

/// Encodes a number, its bits, or an expression. Throws fovea::Error with the field's path.
void put_number(const Field& field, ElementType type, std::byte* to);

/// Returns the size of an array. Throws fovea::Error if it is too large for memory.
[[nodiscard]] std::size_t bytes_of(ElementType type, const Shape& shape);

/// Throws fovea::Error if write_array() would overwrite a file that the launch reads, something
/// that is not a regular file or, without `overwrite`, a file that is not an array of this type and
/// shape.
void require_replaceable(const LaunchFolder& folder, const std::string& name, ElementType type,
                         const Shape& shape, bool overwrite);

/// Writes a .npy file if the name ends in .npy, else the raw bytes.
void write_array(const LaunchFolder& folder, const std::string& name, const Array& array);

}  // namespace fovea::emulation
