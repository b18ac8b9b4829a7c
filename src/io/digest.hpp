// Digest: an incremental hash, computed by OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/evp.h>

#include "core/released.hpp"

namespace fovea::io {

class Digest {
 public:
  explicit Digest(const EVP_MD* function = EVP_sha256());

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// Returns the hash of all data added so far, in hexadecimal. More can be added afterwards.
  [[nodiscard]] std::string hex() const;

  /// Returns the first 64 bits of the hash: enough to detect a change.
  [[nodiscard]] std::uint64_t head() const;

  /// Returns the first 128 bits of the hash: enough to identify a file uniquely.
  [[nodiscard]] std::array<std::uint64_t, 2> wide_head() const;

  /// Returns the first 64 bits of a text's SHA-256.
  [[nodiscard]] static std::uint64_t sha256_head(std::string_view text);

 private:
  [[nodiscard]] std::vector<unsigned char> bytes() const;

  Released<EVP_MD_CTX, EVP_MD_CTX_free> context_;
};

}  // namespace fovea::io
