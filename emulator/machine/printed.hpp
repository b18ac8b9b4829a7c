// Text that the kernels of a run print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace emu {

class Printed {
 public:
  void add(std::string_view text) {
    if (is_full_ || text_.size() + text.size() > kMaxBytes) {
      text_ += is_full_ ? "" : "\n(more than 1 MiB is printed)\n";
      is_full_ = true;
      return;
    }
    text_ += text;
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  // Size of the buffer that a GPU has for it, unless the program chooses another.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;

  std::string text_;
  bool is_full_ = false;
};

}  // namespace emu
