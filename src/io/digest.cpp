// Digest through OpenSSL's EVP interface.
#include "io/digest.hpp"

#include <fmt/ranges.h>

#include "core/error.hpp"

namespace fovea::io {
namespace {

void require_success(bool worked) {
  if (!worked) {
    fail("OpenSSL cannot compute a hash");
  }
}

}  // namespace

Digest::Digest(const EVP_MD* function) : context_(EVP_MD_CTX_new()) {
  require_success(context_ && EVP_DigestInit_ex(context_.get(), function, nullptr) == 1);
}

void Digest::add(std::span<const std::byte> bytes) {
  require_success(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::vector<unsigned char> Digest::bytes() const {
  // Finalises a copy, so that more can be added to the original.
  const Released<EVP_MD_CTX, EVP_MD_CTX_free> copy(EVP_MD_CTX_new());
  std::vector<unsigned char> bytes(EVP_MAX_MD_SIZE);
  unsigned size = 0;
  require_success(copy && EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1 &&
                  EVP_DigestFinal_ex(copy.get(), bytes.data(), &size) == 1);
  bytes.resize(size);
  return bytes;
}

std::string Digest::hex() const {
  return fmt::format("{:02x}", fmt::join(bytes(), ""));
}

std::uint64_t Digest::head() const {
  return wide_head().front();
}

std::array<std::uint64_t, 2> Digest::wide_head() const {
  const std::vector<unsigned char> bytes = this->bytes();
  std::array<std::uint64_t, 2> values{};
  for (std::size_t index = 0; index < sizeof(values); ++index) {
    std::uint64_t& value = values[index / sizeof(std::uint64_t)];
    value = value << 8 | bytes[index];
  }
  return values;
}

std::uint64_t Digest::sha256_head(std::string_view text) {
  Digest digest;
  digest.add(text);
  return digest.head();
}

}  // namespace fovea::io
