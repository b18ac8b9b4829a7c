// Reads the initial and the expected content of buffers.
#include "lab/emulation/content.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/error.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "io/npy.hpp"
#include "io/system_error.hpp"
#include "io/text.hpp"
#include "lab/emulation/limits.hpp"

namespace fovea::emulation {
namespace {

bool is_npy(const std::filesystem::path& path) {
  return path.extension() == ".npy";
}

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view reason) {
  fail("{}: {}", io::escape(path.native()), reason);
}

Array read_npy(const io::File& file, const ArrayKind& kind, MemoryBudget& memory) {
  const std::filesystem::path& path = file.path();
  std::vector<std::byte> head(std::min<std::uint64_t>(io::kMaxNpyHeadBytes, file.size()));
  file.read_at(0, head);
  const io::NpyHead info =
      io::with_path(path, [&] { return io::parse_npy_head(head, file.size()); });
  const std::optional<ElementType> type = kind.type ? kind.type : type_of_npy(info.descr);
  if (!type || !fits_npy(*type, info.descr)) {
    refuse(path, fmt::format("the file's elements are {}{}", io::escape(info.descr),
                             kind.type ? fmt::format(" instead of {}", name_of(*kind.type))
                                       : ", so the buffer's type must be specified"));
  }
  if (kind.shape && *kind.shape != info.shape) {
    refuse(path, fmt::format("the file's shape is {} instead of {}", info.shape.to_string(),
                             kind.shape->to_string()));
  }
  Array array{.type = *type, .shape = info.shape, .bytes = {}};
  const std::size_t bytes = bytes_of(*type, info.shape);
  if (bytes != file.size() - info.data_offset) {
    refuse(path, fmt::format("the file's shape {} does not match its {} bytes of data",
                             info.shape.to_string(), file.size() - info.data_offset));
  }
  memory.take(bytes);
  array.bytes.resize(bytes);
  file.read_at(info.data_offset, array.bytes);
  return array;
}

Array read_raw(const io::File& file, const ArrayKind& kind, MemoryBudget& memory) {
  const std::filesystem::path& path = file.path();
  const ElementType type = kind.type.value_or(ElementType::kU8);
  const auto count = static_cast<std::int64_t>(file.size() / size_of(type));
  Array array{.type = type, .shape = kind.shape.value_or(Shape({count})), .bytes = {}};
  if (bytes_of(type, array.shape) != file.size()) {
    refuse(path, fmt::format("the file has {} bytes, but {} of {} has {}", file.size(),
                             array.shape.to_string(), name_of(type), bytes_of(type, array.shape)));
  }
  memory.take(file.size());
  array.bytes.resize(file.size());
  file.read_at(0, array.bytes);
  return array;
}

Array read_file(const Field& field, const ArrayKind& kind, const Source& source) {
  try {
    const io::File file = source.folder.open(field.text());
    return is_npy(file.path()) ? read_npy(file, kind, source.memory)
                               : read_raw(file, kind, source.memory);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    field.fail(error.what());
  }
}

// Makes an array of zeros and takes its memory from the budget.
Array make_array(const Field& field, ElementType type, const Shape& shape, MemoryBudget& memory) {
  Array array{.type = type, .shape = shape, .bytes = {}};
  const std::size_t bytes = bytes_of(type, shape);
  try {
    memory.take(bytes);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    field.fail(error.what());
  }
  array.bytes.resize(bytes);
  return array;
}

Array read_values(const Field& field, const ArrayKind& kind, MemoryBudget& memory) {
  const std::vector<Field> values = field.elements();
  const ElementType type = kind.type.value_or(ElementType::kU8);
  const Shape shape = kind.shape.value_or(Shape({static_cast<std::int64_t>(values.size())}));
  if (static_cast<std::uint64_t>(shape.elements()) != values.size()) {
    field.fail(fmt::format("expected {} numbers for the shape {}, got {}", shape.elements(),
                           shape.to_string(), values.size()));
  }
  Array array = make_array(field, type, shape, memory);
  for (std::size_t i = 0; i < values.size(); ++i) {
    put_number(values[i], type, &array.bytes[i * size_of(type)]);
  }
  return array;
}

double number_or(const Field& field, std::string_view key, double otherwise) {
  const std::optional<Field> value = field.find(key);
  return value ? value->number() : otherwise;
}

std::uint64_t read_seed(const Field& field, const Source& source) {
  const std::optional<Field> seed = field.find("seed");
  return source.seed + (seed ? seed->whole(0, std::numeric_limits<std::uint64_t>::max()) : 0);
}

// Returns a uniform number in [0, 1). The distributions of <random> differ between standard
// libraries.
double draw(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}

// Generates content by calling `next` for each element.
template <typename Next>
Array generate(const Field& field, const ArrayKind& kind, MemoryBudget& memory, const Next& next) {
  if (!kind.shape) {
    field.fail("the buffer needs a shape or a number of bytes");
  }
  const ElementType type = kind.type.value_or(ElementType::kU8);
  Array array = make_array(field, type, *kind.shape, memory);
  for (std::size_t offset = 0; offset < array.bytes.size(); offset += size_of(type)) {
    put(type, next(), &array.bytes[offset]);
  }
  return array;
}

Array generate_iota(const Field& field, const ArrayKind& kind, MemoryBudget& memory) {
  field.expect_keys({"start", "step"});
  const double start = number_or(field, "start", 0);
  const double step = number_or(field, "step", 1);
  double index = 0;
  return generate(field, kind, memory, [&] { return start + step * index++; });
}

Array generate_uniform(const Field& field, const ArrayKind& kind, const Source& source) {
  field.expect_keys({"low", "high", "seed"});
  const bool is_whole = !is_float(kind.type.value_or(ElementType::kU8));
  const double low = is_whole ? field.at("low").number() : number_or(field, "low", -1);
  const double high = is_whole ? field.at("high").number() : number_or(field, "high", 1);
  if (!(low <= high)) {
    field.fail("low must not be above high");
  }
  std::mt19937_64 random(read_seed(field, source));
  return generate(field, kind, source.memory, [&] {
    return is_whole ? low + std::floor(draw(random) * (high - low + 1))
                    : low + draw(random) * (high - low);
  });
}

Array generate_normal(const Field& field, const ArrayKind& kind, const Source& source) {
  field.expect_keys({"mean", "deviation", "seed"});
  const double mean = number_or(field, "mean", 0);
  const double deviation = number_or(field, "deviation", 1);
  std::mt19937_64 random(read_seed(field, source));
  return generate(field, kind, source.memory, [&] {  // the Box-Muller transform
    const double radius = std::sqrt(-2 * std::log(1 - draw(random)));
    return mean + deviation * radius * std::cos(2 * std::numbers::pi * draw(random));
  });
}

}  // namespace

void put_number(const Field& field, ElementType type, std::byte* to) {
  std::string error = put(type, field.value(), to);
  if (!error.empty() && field.may_be_expression()) {
    error = put(type, nlohmann::json(field.evaluated()), to);
  }
  if (!error.empty()) {
    field.fail(error);
  }
}

std::size_t bytes_of(ElementType type, const Shape& shape) {
  const auto elements = static_cast<std::uint64_t>(shape.elements());
  if (elements > kMaxBytes / size_of(type)) {
    fail("{} of {} do not fit into memory", shape.to_string(), name_of(type));
  }
  return elements * size_of(type);
}

Array read_content(const Field& field, const ArrayKind& kind, const Source& source,
                   const std::vector<std::string>& other_keys) {
  MemoryBudget& memory = source.memory;
  if (field.value().is_string()) {
    const double value = field.choice({"zeros", "ones"}) == "ones" ? 1 : 0;
    return generate(field, kind, memory, [&] { return value; });
  }
  static const std::vector<std::string> kinds = {"file", "values", "iota", "uniform", "normal"};
  std::vector<std::string> known_keys = kinds;
  known_keys.insert(known_keys.end(), other_keys.begin(), other_keys.end());
  field.expect_keys(known_keys);
  const auto count = std::ranges::count_if(
      kinds, [&](const std::string& key) { return field.find(key).has_value(); });
  if (count != 1) {
    field.fail(fmt::format("expected exactly one of the fields {}", fmt::join(kinds, ", ")));
  }
  if (const auto file = field.find("file")) {
    return read_file(*file, kind, source);
  }
  if (const auto values = field.find("values")) {
    return read_values(*values, kind, memory);
  }
  if (const auto iota = field.find("iota")) {
    return generate_iota(*iota, kind, memory);
  }
  const auto uniform = field.find("uniform");
  return uniform ? generate_uniform(*uniform, kind, source)
                 : generate_normal(field.at("normal"), kind, source);
}

void require_replaceable(const LaunchFolder& folder, const std::string& name, ElementType type,
                         const Shape& shape, bool overwrite) {
  const auto [inner, file_name] = folder.place_of(name);
  const std::optional<struct stat> status = inner->examine(file_name, AT_SYMLINK_NOFOLLOW);
  if (!status) {
    return;
  }
  const std::string printed_path = io::escape((*inner / file_name).native());
  if (folder.keeps(*status)) {
    fail("{}: is an input of this command and must not be overwritten", printed_path);
  }
  if (!S_ISREG(status->st_mode)) {
    fail("{}: is not a regular file", printed_path);
  }
  const std::string head = is_npy(name) ? io::npy_header(npy_descr(type), shape) : "";
  const std::size_t bytes = head.size() + bytes_of(type, shape);
  bool is_such_an_array = static_cast<std::size_t>(status->st_size) == bytes;
  if (is_such_an_array && !overwrite) {
    const io::File file(inner->open_to_read(file_name), *inner / file_name);
    std::string begin(head.size(), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(begin)));
    is_such_an_array = begin == head;
  }
  if (!is_such_an_array && !overwrite) {
    fail("{}: exists and is not an array of this type and shape; use --overwrite to replace it",
         printed_path);
  }
}

void write_array(const LaunchFolder& folder, const std::string& name, const Array& array) {
  auto [inner, file_name] = folder.place_of(name);
  io::AtomicFile file(std::move(inner), std::move(file_name));
  if (is_npy(name)) {
    file.write(io::npy_header(npy_descr(array.type), array.shape));
  }
  file.write(std::span(array.bytes));
  file.commit();
}

}  // namespace fovea::emulation
