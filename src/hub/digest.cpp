// Hashes files by SHA-256, or by SHA-1 as git blobs.
#include "hub/digest.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "hub/cache.hpp"
#include "io/digest.hpp"
#include "io/file.hpp"

namespace fovea::hub {
namespace {

constexpr std::size_t kSha256Digits = 64;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

bool is_sha256(std::string_view etag) {
  return etag.size() == kSha256Digits;
}

}  // namespace

bool is_content_etag(std::string_view etag) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return is_commit(etag) ||  // any SHA-1
         (is_sha256(etag) && std::all_of(etag.begin(), etag.end(), is_hex));
}

std::string_view hash_name(std::string_view etag) {
  return is_sha256(etag) ? "SHA-256" : "git SHA-1";
}

std::string hash_file(const std::filesystem::path& path, std::string_view etag,
                      const std::function<void()>& alive) {
  const io::File file(path);
  io::Digest digest(is_sha256(etag) ? EVP_sha256() : EVP_sha1());
  if (!is_sha256(etag)) {  // git hashes "blob <length>\0" before the content
    digest.add(fmt::format("blob {}{}", file.size(), '\0'));
  }
  std::vector<std::byte> buffer(kReadBytes);
  std::uint64_t offset = 0;
  while (const std::size_t count = file.read_some(offset, buffer)) {
    digest.add(std::span(buffer).first(count));
    offset += count;
    alive();
  }
  return digest.hex();
}

}  // namespace fovea::hub
