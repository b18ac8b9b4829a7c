// Sha256: a running hash, by OpenSSL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <openssl/evp.h>

namespace fovea::pipeline {

class Sha256 {
 public:
  Sha256();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// The hash of everything added so far, in hexadecimal; more can be added afterwards.
  [[nodiscard]] std::string hex() const;

  /// The first 16 hexadecimal digits of that as a number: enough to notice a change.
  [[nodiscard]] std::uint64_t head() const;

  /// The head() of a text.
  [[nodiscard]] static std::uint64_t head_of(std::string_view text);

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace fovea::pipeline
