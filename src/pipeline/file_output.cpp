// FileOutput: writes an array, its index and its errors as three atomic files.
#include <memory>
#include <string>

#include "core/error.hpp"
#include "io/npy.hpp"
#include "io/text.hpp"
#include "pipeline/index_line.hpp"
#include "pipeline/output.hpp"

namespace fovea::pipeline {

FileOutput::FileOutput(const std::filesystem::path& path, DType dtype, const Shape& row_shape)
    : dtype_(dtype),
      row_shape_(row_shape),
      folder_(std::make_shared<const io::Folder>(path.parent_path())),
      array_(path),
      index_(path.parent_path() / array_files(path)[1]),
      errors_(path.parent_path() / array_files(path)[2]) {
  array_.write(header());
}

std::string FileOutput::header() const {
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(rows_)};
  dims.insert(dims.end(), row_shape_.dims().begin(), row_shape_.dims().end());
  return io::npy_header(dtype_, Shape(dims));
}

void FileOutput::append(const Batch& batch, std::span<const std::byte> rows) {
  std::string index;
  std::string errors;
  for (const Slot& slot : std::span(batch.slots).first(batch.count)) {
    if (slot.failed()) {
      errors += format_error_line(slot.name, slot.error);
    } else {
      index += format_index_line(make_index_line(rows_++, slot));
    }
  }
  array_.write(rows);
  index_.write(index);
  errors_.write(errors);
}

void FileOutput::finish() {
  const std::string final_header = header();
  array_.write_at(0, std::as_bytes(std::span(final_header)));
  // An older array is removed first, so that a killed run never leaves it next to a new index.
  array_.remove_old();
  errors_.commit();
  index_.commit();
  array_.commit();
  if (!folder_->is_in_place()) {
    fail(
        "{}: the folder was moved or replaced while the job ran; the output is in the folder that "
        "had this name before",
        io::escape(folder_->path().native()));
  }
}

}  // namespace fovea::pipeline
