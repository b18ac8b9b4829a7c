// Files for the model tests: a temporary folder, safetensors built by hand, errors as text.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>

#include "fovea/error.hpp"

namespace fovea::model {

/// A folder that lives as long as the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fovea-model-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// The bytes of a safetensors file with this header and data.
inline std::string safetensors(std::string_view header, std::string_view data = {}) {
  std::string file;
  for (int byte = 0; byte < 8; ++byte) {
    file += static_cast<char>((header.size() >> (8 * byte)) & 0xffU);
  }
  file += header;
  file += data;
  return file;
}

inline std::uint64_t header_length(std::string_view file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return length;
}

/// `text` with the first occurrence of `from` replaced; fails the test when there is none.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// What `body` throws as fovea::Error; fails the test when it does not.
template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace fovea::model
