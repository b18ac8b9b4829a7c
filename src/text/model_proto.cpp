// Reads and writes protobuf's wire format, as far as a ModelProto uses it: numbered fields that are
// integers, floats or byte strings. Field numbers: google/sentencepiece@0292e58
// src/sentencepiece_model.proto.
#include "text/model_proto.hpp"

#include <bit>
#include <cstdint>
#include <optional>

#include "core/error.hpp"

namespace fovea::text {
namespace {

enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::kVarint;
  std::uint64_t value = 0;   // for kVarint, kFixed32 and kFixed64
  std::string_view bytes{};  // for kBytes
};

/// Reads the fields of a message, which is a part of `file_bytes`.
class MessageReader {
 public:
  MessageReader(std::string_view message, std::string_view file_bytes, std::string_view file)
      : remaining_(message), file_bytes_(file_bytes), file_(file) {}

  [[nodiscard]] std::optional<Field> next() {
    if (remaining_.empty()) {
      return std::nullopt;
    }
    const std::uint64_t key = varint();
    Field field{.number = key >> 3U, .wire = static_cast<Wire>(key & 7U)};
    switch (field.wire) {
      case Wire::kVarint:
        field.value = varint();
        break;
      case Wire::kFixed64:
        field.value = fixed(8);
        break;
      case Wire::kFixed32:
        field.value = fixed(4);
        break;
      case Wire::kBytes:
        field.bytes = take(varint());
        break;
      default:
        refuse("a field has an unknown wire type");
    }
    return field;
  }

  /// Reads a nested message.
  [[nodiscard]] MessageReader nested_reader(const Field& field) const {
    expect(field, Wire::kBytes, "expected a message, found another type");
    return {field.bytes, file_bytes_, file_};
  }

  [[nodiscard]] std::string text(const Field& field) const {
    expect(field, Wire::kBytes, "expected text, found another type");
    return std::string(field.bytes);
  }

  [[nodiscard]] std::uint64_t number(const Field& field) const {
    expect(field, Wire::kVarint, "expected an integer, found another type");
    return field.value;
  }

  [[nodiscard]] float float_value(const Field& field) const {
    expect(field, Wire::kFixed32, "expected a float, found another type");
    return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
  }

  [[noreturn]] void refuse(std::string_view reason) const {
    fail("{}: not a SentencePiece model: {} (before byte {})", file_, reason,
         remaining_.data() - file_bytes_.data());
  }

 private:
  void expect(const Field& field, Wire wire, std::string_view mismatch) const {
    if (field.wire != wire) {
      refuse(mismatch);
    }
  }

  std::string_view take(std::uint64_t bytes) {
    if (bytes > remaining_.size()) {
      refuse("a field is truncated");
    }
    const std::string_view field_bytes = remaining_.substr(0, bytes);
    remaining_.remove_prefix(bytes);
    return field_bytes;
  }

  /// Reads a varint: seven bits per byte, the lowest first; the top bit is set if another byte
  /// follows.
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    refuse("an integer has more than 64 bits");
  }

  std::uint64_t fixed(unsigned bytes) {
    std::uint64_t value = 0;
    for (unsigned index = 0; const char byte : take(bytes)) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << 8U * index++;
    }
    return value;
  }

  std::string_view remaining_;
  std::string_view file_bytes_;
  std::string_view file_;
};

Piece read_piece(MessageReader reader) {
  Piece piece;
  while (const auto field = reader.next()) {
    if (field->number == 1) {
      piece.text = reader.text(*field);
    } else if (field->number == 2) {
      piece.score = reader.float_value(*field);
    } else if (field->number == 3) {
      const std::uint64_t type = reader.number(*field);
      if (type < 1 || type > 6) {
        reader.refuse("a piece has an unknown type");
      }
      piece.type = static_cast<PieceType>(type);
    }
  }
  return piece;
}

void read_trainer(MessageReader reader, Vocabulary& vocabulary, std::string_view file) {
  while (const auto field = reader.next()) {
    if (field->number == 3) {
      const std::uint64_t algorithm = reader.number(*field);
      if (algorithm != 1 && algorithm != 2) {
        fail("{}: unsupported SentencePiece algorithm {}; expected 1 (unigram) or 2 (BPE)", file,
             algorithm);
      }
      vocabulary.algorithm = static_cast<Vocabulary::Algorithm>(algorithm);
    } else if (field->number == 24) {
      vocabulary.space_as_suffix = reader.number(*field) != 0;
    } else if (field->number == 35) {
      vocabulary.byte_fallback = reader.number(*field) != 0;
    }
  }
}

void read_normalizer(MessageReader reader, Vocabulary& vocabulary) {
  while (const auto field = reader.next()) {
    if (field->number == 2) {
      vocabulary.charsmap = reader.text(*field);
    } else if (field->number == 3) {
      vocabulary.add_dummy_prefix = reader.number(*field) != 0;
    } else if (field->number == 4) {
      vocabulary.remove_extra_spaces = reader.number(*field) != 0;
    } else if (field->number == 5) {
      vocabulary.escape_spaces = reader.number(*field) != 0;
    }
  }
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) {
    out += static_cast<char>(value | 0x80U);
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, unsigned number, Wire wire) {
  put_varint(out, number << 3U | static_cast<unsigned>(wire));
}

void put_number(std::string& out, unsigned number, std::uint64_t value) {
  put_key(out, number, Wire::kVarint);
  put_varint(out, value);
}

void put_bytes(std::string& out, unsigned number, std::string_view bytes) {
  put_key(out, number, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_float(std::string& out, unsigned number, float value) {
  put_key(out, number, Wire::kFixed32);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(bits >> shift);
  }
}

}  // namespace

Vocabulary read_model_proto(std::string_view bytes, std::string_view file) {
  Vocabulary vocabulary;
  MessageReader reader(bytes, bytes, file);
  while (const auto field = reader.next()) {
    if (field->number == 1) {
      if (vocabulary.pieces.size() == kMaxPieces) {
        fail("{}: the vocabulary has more than {} pieces", file, kMaxPieces);
      }
      vocabulary.pieces.push_back(read_piece(reader.nested_reader(*field)));
    } else if (field->number == 2) {
      read_trainer(reader.nested_reader(*field), vocabulary, file);
    } else if (field->number == 3) {
      read_normalizer(reader.nested_reader(*field), vocabulary);
    }
  }
  check_vocabulary(vocabulary, file);
  return vocabulary;
}

std::string write_model_proto(const Vocabulary& vocabulary) {
  std::string out;
  std::string message;
  for (const Piece& piece : vocabulary.pieces) {
    message.clear();
    put_bytes(message, 1, piece.text);
    put_float(message, 2, piece.score);
    put_number(message, 3, static_cast<std::uint64_t>(piece.type));
    put_bytes(out, 1, message);
  }
  message.clear();
  put_number(message, 3, static_cast<std::uint64_t>(vocabulary.algorithm));
  put_number(message, 4, vocabulary.pieces.size());
  put_number(message, 24, vocabulary.space_as_suffix ? 1 : 0);
  put_number(message, 35, vocabulary.byte_fallback ? 1 : 0);
  // Ids of the special pieces, for programs that read them from the file; -1 stands for none.
  const auto put_id = [&](unsigned number, std::int32_t id) {
    put_number(message, number, static_cast<std::uint64_t>(static_cast<std::int64_t>(id)));
  };
  const std::int32_t unknown = unknown_piece(vocabulary);
  put_id(40, unknown);
  put_id(41, find_piece(vocabulary, "<bos>"));
  put_id(42, find_piece(vocabulary, "<eos>"));
  put_id(43, find_piece(vocabulary, "<pad>"));
  put_bytes(message, 45, vocabulary.pieces.at(static_cast<std::size_t>(unknown)).text);
  put_bytes(message, 46, "<bos>");
  put_bytes(message, 47, "<eos>");
  put_bytes(out, 2, message);
  message.clear();
  put_bytes(message, 1, vocabulary.charsmap.empty() ? "identity" : "user_defined");
  put_bytes(message, 2, vocabulary.charsmap);
  put_number(message, 3, vocabulary.add_dummy_prefix ? 1 : 0);
  put_number(message, 4, vocabulary.remove_extra_spaces ? 1 : 0);
  put_number(message, 5, vocabulary.escape_spaces ? 1 : 0);
  put_bytes(out, 3, message);
  return out;
}

}  // namespace fovea::text
