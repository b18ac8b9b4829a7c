// Parses launch.json: buffers, and kernel launches that use them.
#include "lab/emulation/launch_file.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "core/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"
#include "lab/emulation/content.hpp"
#include "lab/emulation/limits.hpp"

namespace fovea::emulation {
namespace {

// `otherwise` is the type of a buffer that says none.
ArrayKind read_kind(const Field& field, ElementType otherwise) {
  ArrayKind kind;
  if (const auto type = field.find("type")) {
    kind.type = find_type(type->choice(type_names()));
  }
  const auto shape = field.find("shape");
  const auto bytes = field.find("bytes");
  if (shape && bytes) {
    bytes->fail("cannot be combined with \"shape\"");
  }
  if (shape) {
    constexpr std::size_t kMaxRank = 32;
    std::vector<std::int64_t> dims;
    for (const std::uint64_t dim : shape->wholes(0, kMaxRank, 0, kMaxBytes)) {
      dims.push_back(static_cast<std::int64_t>(dim));
    }
    kind.shape = Shape(std::move(dims));
  } else if (bytes) {
    const std::uint64_t count = bytes->whole(0, kMaxBytes);
    const ElementType type = kind.type.value_or(otherwise);
    const std::size_t size = size_of(type);
    if (count % size != 0) {
      bytes->fail(
          fmt::format("{} is not a multiple of the {} bytes of {}", count, size, name_of(type)));
    }
    kind.shape = Shape({static_cast<std::int64_t>(count / size)});
  }
  if (kind.shape) {
    try {
      (void)bytes_of(kind.type.value_or(otherwise), *kind.shape);
    } catch (const Error& error) {
      (shape ? *shape : *bytes).fail(error.what());
    }
  }
  return kind;
}

Comparison read_comparison(const Field& field, const Buffer& buffer, const Source& source) {
  Comparison comparison;
  comparison.expected = read_content(field, {.type = buffer.type, .shape = buffer.shape}, source,
                                     {"absolute", "relative"})
                            .bytes;
  for (const auto& [key, to] :
       {std::pair{"absolute", &comparison.absolute}, std::pair{"relative", &comparison.relative}}) {
    if (const auto tolerance = field.find(key)) {
      *to = tolerance->number();
      comparison.is_exact = false;
      if (!(*to >= 0)) {
        tolerance->fail("a tolerance must not be negative");
      }
    }
  }
  return comparison;
}

// Returns the list of a buffer whose content is addresses of buffers.
std::optional<Field> find_addresses(const Field& buffer) {
  const std::optional<Field> content = buffer.find("content");
  return content && content->value().is_object() ? content->find("addresses") : std::nullopt;
}

// Checks a list of addresses, which are read when all buffers are known, and returns its size.
ArrayKind read_address_kind(const Field& list, ArrayKind kind) {
  const std::size_t count = list.elements().size();
  if (const ElementType type = kind.type.value_or(ElementType::kU64); type != ElementType::kU64) {
    list.fail(fmt::format("addresses are u64, not {}", name_of(type)));
  }
  if (kind.shape && static_cast<std::size_t>(kind.shape->elements()) != count) {
    list.fail(fmt::format("expected {} addresses for the shape {}, got {}", kind.shape->elements(),
                          kind.shape->to_string(), count));
  }
  return {.type = ElementType::kU64,
          .shape = kind.shape.value_or(Shape({static_cast<std::int64_t>(count)}))};
}

Buffer read_buffer(const Field& field, const std::string& name, const Source& source,
                   bool with_content) {
  field.expect_keys({"type", "shape", "bytes", "content", "compare", "write"});
  Buffer buffer{.name = name};
  const auto list = find_addresses(field);
  ArrayKind kind = read_kind(field, list ? ElementType::kU64 : ElementType::kU8);
  if (list) {
    field.at("content").expect_keys({"addresses"});
    kind = read_address_kind(*list, kind);
  } else if (const auto content = field.find("content"); content && with_content) {
    Array array = read_content(*content, kind, source);
    kind = {.type = array.type, .shape = array.shape};
    buffer.content = std::move(array.bytes);
  }
  if (!kind.shape) {
    field.fail("the buffer needs a shape, a number of bytes, or content that implies its size");
  }
  buffer.type = kind.type.value_or(ElementType::kU8);
  buffer.shape = *kind.shape;
  if (bytes_of(buffer.type, buffer.shape) == 0) {
    field.fail("the buffer must not be empty");
  }
  if (const auto compare = field.find("compare")) {
    buffer.compare = read_comparison(*compare, buffer, source);
  }
  if (const auto write = field.find("write")) {
    buffer.write = write->text();
    try {
      source.folder.require_inside(buffer.write);
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      write->fail(error.what());
    }
  }
  return buffer;
}

// Reads the numbers of blocks or threads in up to three dimensions, x first.
std::array<std::uint32_t, 3> read_size(const Field& launch, std::string_view key) {
  std::array<std::uint32_t, 3> size = {1, 1, 1};
  if (const auto field = launch.find(key)) {
    std::ranges::transform(field->wholes(1, 3, 1, kMaxNumber), size.begin(),
                           [](std::uint64_t number) { return static_cast<std::uint32_t>(number); });
  }
  return size;
}

LaunchText read_launch(const Field& field, const std::vector<Buffer>& buffers, bool is_first) {
  field.expect_keys({"kernel", "grid", "block", "cluster", "shared_bytes", "dependent",
                     "cooperative", "arguments"});
  LaunchText launch{.path = field.path()};
  if (const auto kernel = field.find("kernel")) {
    launch.kernel = kernel->text();
  }
  (void)field.at("grid");
  (void)field.at("block");
  launch.config.grid = read_size(field, "grid");
  launch.config.block = read_size(field, "block");
  launch.config.cluster = read_size(field, "cluster");
  if (const auto shared = field.find("shared_bytes")) {
    launch.config.dynamic_shared_bytes = shared->whole(0, kMaxNumber);
  }
  if (const auto dependent = field.find("dependent")) {
    launch.config.is_dependent = dependent->flag();
    if (launch.config.is_dependent && is_first) {
      dependent->fail("the first launch cannot depend on an earlier one");
    }
  }
  if (const auto cooperative = field.find("cooperative")) {
    launch.config.is_cooperative = cooperative->flag();
  }
  if (const auto arguments = field.find("arguments")) {
    for (const Field& argument : arguments->elements()) {
      launch.arguments.push_back(read_argument(argument, buffers));
    }
  }
  return launch;
}

void read_document(const Field& document, LaunchFile& file, const LaunchFileOptions& options) {
  std::vector<std::string> known_keys = {"problem", "buffers", "launch", "launches"};
  known_keys.insert(known_keys.end(), options.other_fields.begin(), options.other_fields.end());
  document.expect_keys(known_keys);
  const Source source{.folder = file.folder, .memory = file.memory};
  if (const auto buffers = document.find("buffers")) {
    const std::vector<std::string> names = buffers->keys();
    if (names.size() > kMaxBuffers) {
      buffers->fail(fmt::format("expected at most {} buffers, got {}", kMaxBuffers, names.size()));
    }
    for (const std::string& name : names) {
      file.buffers.push_back(read_buffer(buffers->at(name), name, source, options.with_content));
    }
    for (Buffer& buffer : file.buffers) {
      if (const auto list = find_addresses(buffers->at(buffer.name))) {
        for (const Field& address : list->elements()) {
          address.expect_keys({"buffer", "offset"});
          buffer.addresses.push_back(read_address(address, file.buffers));
        }
      }
    }
  }
  const auto single = document.find("launch");
  const auto several = document.find("launches");
  if (single.has_value() == several.has_value()) {
    document.fail("expected either a field \"launch\" or a list \"launches\"");
  }
  if (single) {
    file.launches.push_back(read_launch(*single, file.buffers, true));
    return;
  }
  for (const Field& launch : several->elements()) {
    file.launches.push_back(read_launch(launch, file.buffers, file.launches.empty()));
  }
  if (file.launches.empty()) {
    several->fail("there must be at least one launch");
  }
}

}  // namespace

Values read_problem(const Field& document, const Values& changes) {
  Values values;
  if (const auto problem = document.find("problem")) {
    for (const std::string& name : problem->keys()) {
      if (!is_name(name)) {
        problem->fail(fmt::format("\"{}\" is no name: letters, digits and underscores make one",
                                  io::printable(name)));
      }
      values[name] = static_cast<std::int64_t>(problem->at(name).whole(0, kMaxBytes));
    }
  }
  for (const auto& [name, value] : changes) {
    const auto found = values.find(name);
    if (found == values.end()) {
      document.fail(fmt::format("the problem has no field {}", io::printable(name)));
    }
    found->second = value;
  }
  return values;
}

std::vector<std::byte> read_buffer_content(const Field& field, const Buffer& buffer,
                                           const Source& source) {
  const auto content = field.find("content");
  return content
             ? read_content(*content, {.type = buffer.type, .shape = buffer.shape}, source).bytes
             : std::vector<std::byte>{};
}

LaunchFile parse_launch_file(std::string_view text, const std::string& name,
                             const std::filesystem::path& folder,
                             const LaunchFileOptions& options) {
  return read_launch_document(io::parse_json_object(text, name), name, folder, options);
}

LaunchFile read_launch_document(const nlohmann::json& document, const std::string& name,
                                const std::filesystem::path& folder,
                                const LaunchFileOptions& options) {
  LaunchFile file{.name = name,
                  .folder = LaunchFolder(folder, options.any_path),
                  .memory = MemoryBudget(options.max_memory)};
  try {
    Values values = read_problem(Field(document), options.problem);
    values.insert(options.macros.begin(), options.macros.end());
    read_document(Field(document, "", values.empty() ? nullptr : &values), file, options);
  } catch (const Error& error) {
    rethrow_unless_finding(error);
    fail("{}: {}", name, error.what());
  }
  return file;
}

LaunchFile read_launch_file(const std::filesystem::path& path, const LaunchFileOptions& options) {
  const std::string name = io::escape(path.native());
  LaunchFile file = parse_launch_file(io::read_small_file(path), name, path.parent_path(), options);
  for (const std::filesystem::path& input : {path, options.ptx}) {
    if (struct stat info{}; ::stat(input.c_str(), &info) == 0) {
      file.folder.keep(info);
    }
  }
  for (const Buffer& buffer : file.buffers) {
    try {
      if (!buffer.write.empty()) {
        require_replaceable(file.folder, buffer.write, buffer.type, buffer.shape,
                            options.overwrite);
      }
    } catch (const Error& error) {
      rethrow_unless_finding(error);
      fail("{}: buffers.{}.write: {}", name, buffer.name, error.what());
    }
  }
  return file;
}

}  // namespace fovea::emulation
