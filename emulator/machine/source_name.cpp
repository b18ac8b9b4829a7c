// Names of symbols as in the source. The demangler of the C++ runtime refuses symbols of more than
// 1 KiB, which kernels of templates often have, and names in the source may be longer still.
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cxxabi.h>
#include <fmt/format.h>

#include "fovea_emulator/finding.hpp"

namespace emu {
namespace {

constexpr std::string_view kMangled = "_Z";

std::optional<std::string> demangle(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::optional<std::string>(plain.get()) : std::nullopt;
}

// An identifier at the beginning of a text, with its length before it: "saxpy" of "5saxpyIi".
struct Identifier {
  std::string_view name{};  // empty if there is none
  std::size_t size = 0;     // with the length
};

Identifier find_identifier(std::string_view text) {
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || bytes == 0 || bytes > text.size() - digits) {
    return {};
  }
  return {text.substr(digits, bytes), digits + bytes};
}

// Returns a short text that stands for what is left out of a symbol's name, and is another one for
// other symbols.
std::string hash_text(std::string_view symbol) {
  std::uint32_t hash = 0x811C9DC5;  // FNV-1a
  for (const char character : symbol) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x01000193;
  }
  return fmt::format("#{:08x}", hash);
}

// Returns the name of a function with a hash in the place of its template arguments and types.
std::optional<std::string> short_function_name(const std::string& symbol) {
  const std::string_view text = symbol;
  std::size_t end = kMangled.size();
  const bool is_nested = text.substr(end).starts_with('N');
  end += is_nested ? 1 : 0;
  for (bool is_last = false; !is_last;) {
    const std::string_view rest = text.substr(end);
    const std::size_t prefix = rest.starts_with("St") ? 2 : rest.starts_with('L') ? 1 : 0;
    const std::size_t size = find_identifier(rest.substr(prefix)).size;
    is_last = size == 0 || !is_nested;
    end += size == 0 ? 0 : prefix + size;
  }
  const auto name = demangle(symbol.substr(0, end) + (is_nested ? "E" : ""));
  if (!name.has_value()) {
    return std::nullopt;
  }
  const bool is_template = text.substr(end).starts_with('I');
  const std::string hash = hash_text(symbol);
  return is_template ? fmt::format("{}<{}>", *name, hash) : fmt::format("{}({})", *name, hash);
}

// Returns the name of a function, or of a variable of a function, in short.
std::optional<std::string> short_name(const std::string& symbol) {
  constexpr std::string_view kLocal = "_ZZ";
  if (!symbol.starts_with(kLocal)) {
    return short_function_name(symbol);
  }
  // The variable's name is the last identifier, behind the function's end and before a number that
  // tells variables of the same name apart.
  const std::string_view text = symbol;
  for (std::size_t end = text.find('E'); end != std::string_view::npos;
       end = text.find('E', end + 1)) {
    const std::string_view rest = text.substr(end + 1);
    const Identifier variable = find_identifier(rest);
    if (variable.size != 0 &&
        rest.find_first_not_of("_0123456789", variable.size) == std::string_view::npos) {
      const auto function = short_function_name(
          fmt::format("{}{}", kMangled, text.substr(kLocal.size(), end - kLocal.size())));
      return fmt::format("{}::{}", function.value_or("(...)"), variable.name);
    }
  }
  return std::nullopt;
}

}  // namespace

std::string source_name(const std::string& symbol, std::size_t max_characters) {
  const bool is_mangled = symbol.starts_with(kMangled);  // "f" is that of a type, too
  auto name = is_mangled ? demangle(symbol) : std::nullopt;
  if (is_mangled && (!name.has_value() || name->size() > max_characters)) {
    name = short_name(symbol);
  }
  if (!name.has_value()) {
    name = symbol;
  }
  if (name->size() > max_characters) {
    name = name->substr(0, max_characters / 2) + hash_text(symbol);
  }
  return *name;
}

}  // namespace emu
