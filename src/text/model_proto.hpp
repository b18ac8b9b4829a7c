// SentencePiece's files, tokenizer.model and spiece.model: a ModelProto in protobuf's wire format.
#pragma once

#include <string>
#include <string_view>

#include "text/vocabulary.hpp"

namespace fovea::text {

/// Reads the fields that correspond to Vocabulary and skips the others. Throws fovea::Error, whose
/// message begins with `file`, when `bytes` are not a ModelProto, its algorithm is not supported,
/// or check_vocabulary() refuses it.
[[nodiscard]] Vocabulary read_model_proto(std::string_view bytes, std::string_view file);

/// Serialises a vocabulary accepted by check_vocabulary() as a ModelProto for SentencePiece. Equal
/// vocabularies give equal bytes.
[[nodiscard]] std::string write_model_proto(const Vocabulary& vocabulary);

}  // namespace fovea::text
