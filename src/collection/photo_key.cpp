// Makes names absolute, and hashes them.
#include "collection/photo_key.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "core/error.hpp"
#include "io/digest.hpp"

namespace fovea::collection {

std::string absolute_name(std::string_view working_folder, std::string_view name) {
  std::string base;
  if (!name.starts_with('/')) {
    base = working_folder;
    while (base.ends_with('/')) {
      base.pop_back();
    }
    while (!working_folder.empty() && (name == ".." || name.starts_with("../"))) {
      base.resize(base.find_last_of('/') == std::string::npos ? 0 : base.find_last_of('/'));
      name.remove_prefix(std::string_view("..").size());
      name.remove_prefix(std::min(name.find_first_not_of('/'), name.size()));
    }
    base += working_folder.empty() ? "" : "/";
  }
  std::string absolute = std::move(base);
  for (std::size_t position = 0; position < name.size();) {
    const bool at_part_start = absolute.empty() || absolute.back() == '/';
    if (at_part_start && name.substr(position).starts_with("./")) {
      position += std::string_view("./").size();
    } else if (name[position] == '/' && absolute.ends_with('/')) {
      ++position;
    } else {
      absolute += name[position++];
    }
  }
  return absolute;
}

Key name_key(std::string_view absolute) {
  io::Digest sum;
  sum.add(absolute);
  return sum.wide_head();
}

Key content_key(std::string_view sha256) {
  constexpr int kBase = 16;
  constexpr std::size_t kPartDigits = 16;
  constexpr std::size_t kSumDigits = 64;
  Key key{};
  bool is_valid = sha256.size() == kSumDigits;
  for (std::size_t part = 0; is_valid && part < key.size(); ++part) {
    const char* const first = sha256.data() + part * kPartDigits;
    const auto [end, error] = std::from_chars(first, first + kPartDigits, key[part], kBase);
    is_valid = error == std::errc{} && end == first + kPartDigits;
  }
  if (!is_valid) {
    fail("\"{}\" is not a SHA-256 checksum in hexadecimal", sha256);
  }
  return key;
}

}  // namespace fovea::collection
