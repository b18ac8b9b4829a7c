// SHA-256 by OpenSSL.
#include "pipeline/sha256.hpp"

#include <array>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::pipeline {
namespace {

constexpr std::size_t kDigestBytes = 32;

std::array<unsigned char, kDigestBytes> digest_of(const EVP_MD_CTX* context) {
  // Finishes a copy, so that the original can continue.
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> copy(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<unsigned char, kDigestBytes> digest{};
  if (!copy || EVP_MD_CTX_copy_ex(copy.get(), context) != 1 ||
      EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr) != 1) {
    fail("OpenSSL cannot compute a SHA-256");
  }
  return digest;
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
    fail("OpenSSL offers no SHA-256");
  }
}

void Sha256::add(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) {
    fail("OpenSSL cannot compute a SHA-256");
  }
}

std::string Sha256::hex() const {
  std::string text;
  for (const unsigned char byte : digest_of(context_.get())) {
    text += fmt::format("{:02x}", byte);
  }
  return text;
}

std::uint64_t Sha256::head() const {
  const auto digest = digest_of(context_.get());
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < sizeof(value); ++index) {
    value = value << 8 | digest[index];
  }
  return value;
}

std::uint64_t Sha256::head_of(std::string_view text) {
  Sha256 sum;
  sum.add(text);
  return sum.head();
}

}  // namespace fovea::pipeline
