// The fields of a problem that no card lists: "m=4099,n=1728,k=1152".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace fovea::lab {

/// Values that a field may have: from `least` to `greatest`, multiples of `step`.
struct FieldRange {
  std::int64_t least = 1;
  std::int64_t greatest = 1 << 22;
  std::int64_t step = 1;
};

/// Names and values that a user wrote, which the maker of a card's problem takes one by one.
class ProblemFields {
 public:
  /// Whether the name of a case is a problem in this form.
  [[nodiscard]] static bool are(std::string_view text) {
    return text.find('=') != std::string_view::npos;
  }

  /// Throws fovea::Error unless it is name=value, separated by commas, and no name comes twice.
  explicit ProblemFields(std::string_view text);

  /// Puts the field's number into `value`, which stays as it is when nothing was said of it: then
  /// returns false. Throws fovea::Error when the number is out of range.
  bool take(std::string_view name, std::int64_t& value, const FieldRange& range = {});
  /// The same of a type, one of these.
  bool take(std::string_view name, DType& value, std::initializer_list<DType> types);
  /// Throws fovea::Error that names a field which nobody took, and those that there are.
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

/// Throws fovea::Error when a tensor of so many rows and columns is more than a GPU is to hold.
void require_size(std::string_view tensor, std::int64_t rows, std::int64_t columns);

}  // namespace fovea::lab
