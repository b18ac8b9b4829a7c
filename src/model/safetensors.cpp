// Parses the safetensors header as a stream (SAX), so that memory stays in proportion to the
// header, then checks the layout rules of safetensors/src/tensor.rs.
#include "model/safetensors.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <ranges>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::model {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = kSafetensorsLengthBytes;
// safetensors/src/tensor.rs: MAX_HEADER_SIZE.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
// Limits memory for malicious headers; real tensors have far fewer dimensions.
constexpr std::size_t kMaxRank = 256;
// Fields that the format does not define are skipped, as in the reference implementation, up to
// this limit.
constexpr int kMaxSkippedDepth = 32;

struct StoredType {
  std::string_view name;
  unsigned bits;
};
// Every Dtype of safetensors/src/tensor.rs.
constexpr std::array<StoredType, 22> kStoredTypes{{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

std::string shown(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  return name.size() <= kLongest ? io::escape(name) : io::escape(name.substr(0, kLongest)) + "...";
}

struct HeaderTensor {
  const StoredType* type = nullptr;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_shape = false;
  bool has_offsets = false;
  std::uint64_t position = 0;  // byte offset of the header entry in the file
};

/// Receives the header's tokens: { name: {"dtype", "shape", "data_offsets"}, "__metadata__": {} }.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  HeaderHandler(std::string_view file, const char* begin, const char* const* next, StopFlag stop)
      : file_(file), begin_(begin), next_(next), stop_(stop) {}

  [[nodiscard]] std::map<std::string, HeaderTensor, std::less<>>& tensors() { return tensors_; }

  bool key(string_t& name) override {
    stop_.poll();
    if (skip_depth_ > 0) {
      return true;
    }
    if (place_ == Place::kRoot) {
      if (name == "__metadata__") {
        if (std::exchange(has_metadata_, true)) {
          refuse("key \"__metadata__\" appears twice");
        }
        place_ = Place::kMetadataStart;
        return true;
      }
      const auto [entry, fresh] = tensors_.try_emplace(name);
      tensor_ = &*entry;
      place_ = Place::kTensorStart;
      if (!fresh) {
        refuse("appears twice");
      }
      tensor_->second.position = position();
      return true;
    }
    if (place_ == Place::kMetadata) {
      if (!metadata_keys_.insert(name).second) {
        refuse(fmt::format("key \"{}\" of __metadata__ appears twice", shown(name)));
      }
      place_ = Place::kMetadataValue;
      return true;
    }
    // All other keys are fields of a tensor.
    HeaderTensor& tensor = tensor_->second;
    if (name == "dtype") {
      repeated(tensor.type != nullptr, name);
      place_ = Place::kDtype;
    } else if (name == "shape") {
      repeated(std::exchange(tensor.has_shape, true), name);
      place_ = Place::kShapeStart;
    } else if (name == "data_offsets") {
      repeated(std::exchange(tensor.has_offsets, true), name);
      place_ = Place::kOffsetsStart;
    } else {
      repeated(!unknown_keys_.insert(name).second, name);
      place_ = Place::kUnknown;
    }
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    if (skipping_deeper()) {
      return true;
    }
    switch (place_) {
      case Place::kBegin:
        place_ = Place::kRoot;
        return true;
      case Place::kMetadataStart:
        place_ = Place::kMetadata;
        return true;
      case Place::kTensorStart:
        unknown_keys_.clear();
        place_ = Place::kTensor;
        return true;
      default:
        unexpected("an object");
    }
  }

  bool end_object() override {
    if (skipping_done()) {
      return true;
    }
    if (place_ == Place::kTensor) {
      const HeaderTensor& tensor = tensor_->second;
      if (tensor.type == nullptr || !tensor.has_shape || !tensor.has_offsets) {
        refuse("dtype, shape or data_offsets is missing");
      }
    }
    place_ = place_ == Place::kRoot ? Place::kEnd : Place::kRoot;
    tensor_ = nullptr;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (skipping_deeper()) {
      return true;
    }
    if (place_ == Place::kShapeStart) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsStart) {
      place_ = Place::kOffsets;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (skipping_done()) {
      return true;
    }
    if (place_ == Place::kOffsets && tensor_->second.offsets.size() != 2) {
      refuse("data_offsets are not two numbers");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (scalar_skipped()) {
      return true;
    }
    if (place_ == Place::kShape) {
      if (tensor_->second.shape.size() == kMaxRank) {
        refuse(fmt::format("has more than {} dimensions", kMaxRank));
      }
      tensor_->second.shape.push_back(value);
    } else if (place_ == Place::kOffsets) {
      if (tensor_->second.offsets.size() == 2) {
        refuse("data_offsets are not two numbers");
      }
      tensor_->second.offsets.push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (scalar_skipped()) {
      return true;
    }
    if (place_ == Place::kMetadataValue) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kDtype) {
      const auto* type = std::ranges::find(kStoredTypes, value, &StoredType::name);
      if (type == kStoredTypes.end()) {
        refuse(fmt::format("has unknown dtype \"{}\"", shown(value)));
      }
      tensor_->second.type = type;
      place_ = Place::kTensor;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool null() override {
    if (place_ == Place::kMetadataStart) {  // null means absent
      place_ = Place::kRoot;
      return true;
    }
    return scalar_skipped() || unexpected("null");
  }
  bool boolean(bool /*value*/) override { return scalar_skipped() || unexpected("true or false"); }
  bool number_integer(number_integer_t /*value*/) override {
    return scalar_skipped() || unexpected("a negative number");
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return scalar_skipped() || unexpected("a number that is not a 64-bit integer");
  }
  bool binary(binary_t& /*value*/) override { return unexpected("binary data"); }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    refuse("not JSON");
  }

 private:
  enum class Place : std::uint8_t {
    kBegin,
    kRoot,
    kMetadataStart,
    kMetadata,
    kMetadataValue,
    kTensorStart,
    kTensor,
    kDtype,
    kShapeStart,
    kShape,
    kOffsetsStart,
    kOffsets,
    kUnknown,
    kEnd,
  };

  // Returns the file offset up to which the parser has read.
  [[nodiscard]] std::uint64_t position() const {
    return kLengthBytes + static_cast<std::uint64_t>(*next_ - begin_);
  }

  [[noreturn]] void refuse(std::string_view what) const {
    if (tensor_ != nullptr) {
      fail("{}: header, at byte {}: tensor \"{}\": {}", file_, position(), shown(tensor_->first),
           what);
    }
    fail("{}: header, at byte {}: {}", file_, position(), what);
  }

  [[noreturn]] bool unexpected(std::string_view token) const {
    switch (place_) {
      case Place::kMetadataStart:
        refuse(fmt::format("__metadata__ is {}, expected an object", token));
      case Place::kMetadataValue:
        refuse(fmt::format("a value of __metadata__ is {}, expected a string", token));
      case Place::kDtype:
        refuse(fmt::format("dtype is {}, expected a string", token));
      case Place::kShapeStart:
      case Place::kShape:
        refuse(fmt::format("{} in shape, expected a list of numbers that are not negative", token));
      case Place::kOffsetsStart:
      case Place::kOffsets:
        refuse(
            fmt::format("{} in data_offsets, expected two numbers that are not negative", token));
      default:
        refuse(fmt::format("{}, expected an object", token));
    }
  }

  void repeated(bool is_repeated, const std::string& name) const {
    if (is_repeated) {
      refuse(fmt::format("key \"{}\" appears twice", shown(name)));
    }
  }

  // The following skip the value of an unknown field, which may be of any type.
  bool skipping_deeper() {
    if (place_ != Place::kUnknown) {
      return false;
    }
    if (++skip_depth_ > kMaxSkippedDepth) {
      refuse(fmt::format("nested more than {} deep", kMaxSkippedDepth));
    }
    return true;
  }
  bool skipping_done() {
    if (place_ != Place::kUnknown) {
      return false;
    }
    if (--skip_depth_ == 0) {
      place_ = Place::kTensor;
    }
    return true;
  }
  bool scalar_skipped() {
    if (place_ != Place::kUnknown) {
      return false;
    }
    if (skip_depth_ == 0) {
      place_ = Place::kTensor;
    }
    return true;
  }

  std::string_view file_;
  const char* begin_;
  const char* const* next_;  // points to the next character that the parser reads
  StopFlag stop_;
  Place place_ = Place::kBegin;
  int skip_depth_ = 0;
  bool has_metadata_ = false;
  std::set<std::string> metadata_keys_;
  std::set<std::string> unknown_keys_;  // keys of the current tensor
  std::map<std::string, HeaderTensor, std::less<>> tensors_;
  std::pair<const std::string, HeaderTensor>* tensor_ = nullptr;
};

std::uint64_t stored_bytes(const std::string& name, const HeaderTensor& tensor,
                           std::string_view file) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bits = 1;
  const auto multiply = [&](std::uint64_t factor) {
    if (factor != 0 && bits > kMax / factor) {
      fail("{}: header, at byte {}: tensor \"{}\": its size in bits overflows 64 bits", file,
           tensor.position, shown(name));
    }
    bits *= factor;
  };
  for (const std::uint64_t dim : tensor.shape) {
    multiply(dim);
  }
  multiply(tensor.type->bits);
  if (bits % 8 != 0) {
    fail("{}: header, at byte {}: tensor \"{}\": {} bits of {} are not a whole number of bytes",
         file, tensor.position, shown(name), bits, tensor.type->name);
  }
  return bits / 8;
}

using HeaderEntry = std::pair<const std::string, HeaderTensor>;

// The layout rules: sorted by offset, tensors fill [0, data_bytes) without gap or overlap.
void check_layout(const std::map<std::string, HeaderTensor, std::less<>>& tensors,
                  std::uint64_t data_begin, std::uint64_t data_bytes, std::string_view file) {
  std::vector<const HeaderEntry*> sorted;
  sorted.reserve(tensors.size());
  for (const HeaderEntry& entry : tensors) {
    sorted.push_back(&entry);
  }
  std::ranges::sort(sorted, {}, [](const HeaderEntry* entry) { return entry->second.offsets; });
  std::uint64_t expected = 0;
  for (const HeaderEntry* entry : sorted) {
    const auto& [name, tensor] = *entry;
    const std::uint64_t begin = tensor.offsets[0];
    const std::uint64_t end = tensor.offsets[1];
    const auto refuse = [&](const std::string& what) {
      fail("{}: header, at byte {}: tensor \"{}\" with data_offsets [{}, {}]: {}", file,
           tensor.position, shown(name), begin, end, what);
    };
    if (end < begin) {
      refuse("ends before it begins");
    }
    if (begin != expected) {
      refuse(fmt::format("{} the tensor before it, which ends at {} (byte {} of the file)",
                         begin < expected ? "overlaps" : "leaves a gap after", expected,
                         data_begin + expected));
    }
    if (end > data_bytes) {
      refuse(fmt::format("ends past the file's data of {} bytes; truncated?", data_bytes));
    }
    const std::uint64_t needed = stored_bytes(name, tensor, file);
    if (end - begin != needed) {
      refuse(fmt::format("holds {} bytes, but its shape and dtype {} need {}", end - begin,
                         tensor.type->name, needed));
    }
    expected = end;
  }
  if (expected != data_bytes) {
    fail("{}: at byte {}: {} bytes after the last tensor belong to no tensor", file,
         data_begin + expected, data_bytes - expected);
  }
}

}  // namespace

std::string_view stored_name(DType type) {
  // Types with block scales have no name in the format.
  constexpr std::string_view kNames[] = {"U8", "I8", "F8_E4M3", "", "F16", "BF16", "F32", "F64"};
  static_assert(std::size(kNames) == std::size(kDTypes));
  return kNames[static_cast<std::size_t>(type)];
}

std::optional<DType> StoredTensor::float_dtype() const {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (dtype == stored_name(type)) {
      return type;
    }
  }
  return std::nullopt;
}

std::string StoredTensor::shape_text() const {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::size_t safetensors_header_bytes(std::span<const std::byte> start, std::uint64_t file_bytes,
                                     std::string_view file) {
  if (start.size() < kLengthBytes) {
    fail("{}: {} bytes are too short for a safetensors file (its first 8 give the header's length)",
         file, start.size());
  }
  std::uint64_t length = 0;
  for (std::size_t index = kLengthBytes; index-- > 0;) {
    length = (length << 8) | std::to_integer<std::uint64_t>(start[index]);
  }
  if (length > kMaxHeaderBytes) {
    fail("{}: at byte 0: the header would be {} bytes long (at most {}); not a safetensors file?",
         file, length, kMaxHeaderBytes);
  }
  if (length > file_bytes - kLengthBytes) {
    fail("{}: at byte 0: the header would be {} bytes long, but the file has only {}; truncated?",
         file, length, file_bytes);
  }
  return length;
}

StoredTensors parse_safetensors(std::string_view header, std::uint64_t file_bytes,
                                std::string_view file, StopFlag stop) {
  const char* begin = header.data();
  const char* end = begin + header.size();
  // nlohmann's lexer treats a zero byte as the end of the text and skips a byte order mark, so both
  // are rejected here. It checks UTF-8 within strings; elsewhere JSON is ASCII.
  if (const char* zero = std::find(begin, end, '\0'); zero != end) {
    fail("{}: header, at byte {}: not JSON: zero byte", file,
         kLengthBytes + static_cast<std::uint64_t>(zero - begin));
  }
  if (header.starts_with("\xef\xbb\xbf")) {
    fail("{}: header, at byte {}: not JSON: byte order mark", file, kLengthBytes);
  }
  const char* next = begin;
  HeaderHandler handler(file, begin, &next, stop);
  const auto characters = header | std::views::transform([&next](const char& character) {
                            next = &character + 1;  // tells the handler the position of the parser
                            return character;
                          });
  json::sax_parse(characters.begin(), characters.end(), &handler);

  const std::uint64_t data_begin = kLengthBytes + header.size();
  check_layout(handler.tensors(), data_begin, file_bytes - data_begin, file);
  StoredTensors tensors;
  while (!handler.tensors().empty()) {
    auto node = handler.tensors().extract(handler.tensors().begin());
    HeaderTensor& tensor = node.mapped();
    tensors.emplace_hint(tensors.end(), std::move(node.key()),
                         StoredTensor{.dtype = tensor.type->name,
                                      .shape = std::move(tensor.shape),
                                      .offset = data_begin + tensor.offsets[0],
                                      .bytes = tensor.offsets[1] - tensor.offsets[0]});
  }
  return tensors;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, StopFlag stop) : file_(path) {
  const std::string shown_path = io::escape(path.native());
  std::array<std::byte, kLengthBytes> start{};
  const auto first = std::span(start).first(std::min<std::uint64_t>(start.size(), file_.size()));
  file_.read_at(0, first);
  std::string header(safetensors_header_bytes(first, file_.size(), shown_path), '\0');
  file_.read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
  tensors_ = parse_safetensors(header, file_.size(), shown_path, stop);
}

std::string safetensors_header(std::span<const TensorEntry> tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::size_t offset = 0;
  for (const TensorEntry& tensor : tensors) {
    const std::size_t end = offset + tensor.bytes;
    json += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        io::json_quote(tensor.name), tensor.dtype, fmt::join(tensor.shape, ","),
                        offset, end);
    offset = end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string header;
  for (std::size_t byte = 0; byte < kLengthBytes; ++byte) {
    header += static_cast<char>((json.size() >> (8 * byte)) & 0xffU);
  }
  return header + json;
}

}  // namespace fovea::model
