// Fields of a problem given by the user, as in "m=4099,n=1728,k=1152".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace fovea::lab {

/// Values that a field may have: multiples of `step` from `min` to `max`.
struct FieldRange {
  std::int64_t min = 1;
  std::int64_t max = 1 << 22;
  std::int64_t step = 1;
};

/// Names and values from the command line. A card's problem function takes them one by one.
class ProblemFields {
 public:
  /// Returns whether the name of a case is a list of problem fields.
  [[nodiscard]] static bool are(std::string_view text) {
    return text.find('=') != std::string_view::npos;
  }

  /// Throws fovea::Error unless the text is a list of name=value, separated by commas, without
  /// duplicate names.
  explicit ProblemFields(std::string_view text);

  /// Stores the field's number in `value` and returns true; if the field is absent, leaves `value`
  /// unchanged and returns false. Throws fovea::Error if the number is out of range.
  bool take(std::string_view name, std::int64_t& value, const FieldRange& range = {});
  /// Takes a field whose value must be one of these types.
  bool take(std::string_view name, DType& value, std::initializer_list<DType> types);
  /// Throws fovea::Error if a field was not taken; the message names it and lists the known fields.
  void finish(std::string_view card) const;

 private:
  struct Field {
    std::string name;
    std::string value;
    bool taken = false;
  };
  Field* find(std::string_view name);

  std::vector<Field> fields_;
  std::vector<std::string> known_;
};

/// Throws fovea::Error if a tensor with these numbers of rows and columns is too large for a GPU.
void require_size(std::string_view tensor, std::int64_t rows, std::int64_t columns);

}  // namespace fovea::lab
