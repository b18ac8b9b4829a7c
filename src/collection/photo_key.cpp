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
    const bool begins_part = absolute.empty() || absolute.back() == '/';
    if (begins_part && name.substr(position).starts_with("./")) {
      position += std::string_view("./").size();
    } else if (name[position] == '/' && absolute.ends_with('/')) {
      ++position;
    } else {
      absolute += name[position++];
    }
  }
  return absolute;
}

Key key_of(std::string_view absolute) {
  io::Digest sum;
  sum.add(absolute);
  return sum.wide_head();
}

Key content_key(std::string_view sha256) {
  constexpr std::size_t kDigits = 16;
  constexpr std::size_t kAllDigits = 64;
  Key key{};
  bool good = sha256.size() == kAllDigits;
  for (std::size_t part = 0; good && part < key.size(); ++part) {
    const char* const first = sha256.data() + part * kDigits;
    const auto [end, error] = std::from_chars(first, first + kDigits, key[part], kDigits);
    good = error == std::errc{} && end == first + kDigits;
  }
  if (!good) {
    fail("\"{}\" is not a SHA-256 in hexadecimal", sha256);
  }
  return key;
}

}  // namespace fovea::collection
