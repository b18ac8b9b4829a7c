// Text that the kernels of a run print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace emu {

class Printed {
 public:
  /// Size of the buffer that a GPU has for the text, unless the program chooses another.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

  void add(std::string_view text) {
    if (is_full_ || text_.size() + text.size() > kMaxBytes) {
      text_ += is_full_ ? "" : "\n(more than 1 MiB is printed)\n";
      is_full_ = true;
      return;
    }
    text_ += text;
  }
  /// Whether no more text is kept.
  [[nodiscard]] bool is_full() const { return is_full_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool is_full_ = false;
};

}  // namespace emu
