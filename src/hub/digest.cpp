// SHA-256 and git blob SHA-1 through OpenSSL's EVP interface.
#include "hub/digest.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <openssl/evp.h>

#include "core/error.hpp"
#include "hub/cache.hpp"
#include "io/file.hpp"

namespace fovea::hub {
namespace {

constexpr std::size_t kSha256Digits = 64;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

bool is_sha256(std::string_view etag) {
  return etag.size() == kSha256Digits;
}

void check(int result, std::string_view call) {
  if (result != 1) {
    fail("OpenSSL: {} failed", call);
  }
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

std::string hash_file(const std::filesystem::path& path, std::string_view etag) {
  const io::File file(path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  check(EVP_DigestInit_ex(context.get(), is_sha256(etag) ? EVP_sha256() : EVP_sha1(), nullptr),
        "EVP_DigestInit_ex");
  if (!is_sha256(etag)) {  // git hashes "blob <length>\0" before the content
    const std::string header = fmt::format("blob {}", file.size());
    check(EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1), "EVP_DigestUpdate");
  }
  std::vector<std::byte> buffer(kReadBytes);
  std::uint64_t offset = 0;
  while (const std::size_t count = file.read_some(offset, buffer)) {
    check(EVP_DigestUpdate(context.get(), buffer.data(), count), "EVP_DigestUpdate");
    offset += count;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  check(EVP_DigestFinal_ex(context.get(), digest.data(), &length), "EVP_DigestFinal_ex");
  std::string text;
  for (unsigned index = 0; index < length; ++index) {
    text += fmt::format("{:02x}", digest.at(index));
  }
  return text;
}

}  // namespace fovea::hub
