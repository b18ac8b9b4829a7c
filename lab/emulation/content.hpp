// What is in a buffer before the kernels run, and what should be there after: files, numbers in the
// document, and what is generated.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor_view.hpp"
#include "lab/emulation/elements.hpp"
#include "lab/emulation/field.hpp"
#include "lab/emulation/launch_folder.hpp"
#include "lab/emulation/limits.hpp"

namespace fovea::emulation {

/// Numbers in memory, row-major.
struct Array {
  ElementType type = ElementType::kU8;
  Shape shape{};
  std::vector<std::byte> bytes{};
};

/// What a launch file may read, and how much memory it may take.
struct Source {
  const LaunchFolder& folder;
  MemoryBudget& memory;
};

/// What is known of an array before its content is.
struct ArrayKind {
  std::optional<ElementType> type{};
  std::optional<Shape> shape{};
};

/// The array that a field says: "zeros", "ones", or an object with one of the fields file, values,
/// iota, uniform, normal. What the kind leaves open is as in the file, or as many as there are
/// values; without a file the type is u8. `more`: other fields that the object may have. Throws
/// fovea::Error with the field's path.
[[nodiscard]] Array read_content(const Field& field, const ArrayKind& kind, const Source& source,
                                 const std::vector<std::string>& more = {});

/// Elements times their size. Throws fovea::Error where that is too large for memory.
[[nodiscard]] std::size_t bytes_of(ElementType type, const Shape& shape);

/// Throws fovea::Error where write_array() would replace what must stay: a file that the launch
/// reads, something that is no regular file or, unless `overwrite`, a file that is no array of this
/// type and shape.
void require_replaceable(const LaunchFolder& folder, const std::string& name, ElementType type,
                         const Shape& shape, bool overwrite);

/// Writes a .npy file, if it is called so, or the bytes alone.
void write_array(const LaunchFolder& folder, const std::string& name, const Array& array);

}  // namespace fovea::emulation
