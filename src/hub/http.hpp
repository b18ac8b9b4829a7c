// HttpClient: GET and HEAD through libcurl. Redirects never pass the token to other origins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/error.hpp"

namespace fovea::hub {

/// A failure that may be temporary: a closed connection, a time-out, an overloaded server.
class TransientError : public Error {
 public:
  using Error::Error;
};

struct HttpResponse {
  long status = 0;
  /// Header values by name, in lower case.
  std::map<std::string, std::string> headers;
  /// The URL of the reply, and the absolute URL that it redirects to (or "").
  std::string url;
  std::string redirect;

  /// Returns the header's value, or "".
  [[nodiscard]] std::string header(const std::string& name) const;
  /// Returns Content-Length, or -1 when it is missing or invalid, or the body is encoded.
  [[nodiscard]] std::int64_t content_length() const;
};

/// Returns "scheme://host:port" of a URL; throws fovea::Error when it is not an http or https URL.
[[nodiscard]] std::string url_origin(const std::string& url);

/// An HTTP client that reuses its connections. Not thread-safe.
class HttpClient {
 public:
  /// `token` (may be empty) is sent as a bearer to `endpoint`'s own origin and to no other.
  /// `on_wait` is called at least every second while a request waits: with a message for the user
  /// after a few seconds without data, else with "". An exception from it ends the request.
  using OnWait = std::function<void(const std::string& waiting)>;
  HttpClient(const std::string& endpoint, std::string token, OnWait on_wait);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Receives the body of a 200 or 206 in pieces, after its headers. It may throw.
  using Body = std::function<void(const HttpResponse&, std::span<const std::byte>)>;

  /// Sends a HEAD request and follows redirects only within the origin of `url`. Headers of
  /// redirects are kept unless later replies repeat them, except for the length and the etag, which
  /// describe the reply itself.
  [[nodiscard]] HttpResponse head(const std::string& url);

  /// Gets a short text and follows redirects like get(). The body of a 200 goes to `text`. Throws
  /// fovea::Error when it is longer than `max_bytes` bytes.
  HttpResponse get_text(const std::string& url, std::size_t max_bytes, std::string& text);

  /// Gets the bytes from `offset` on and follows redirects, except from https to http. Returns the
  /// last reply, whatever its status. Throws TransientError when the connection fails, fovea::Error
  /// when trying again cannot help.
  HttpResponse get(const std::string& url, std::uint64_t offset, const Body& body);

 private:
  struct Transfer;
  /// The kind of a request, which determines its time-outs: files only need a minimum speed.
  enum class RequestKind : std::uint8_t { kHead, kText, kFile };
  HttpResponse perform(const std::string& url, RequestKind kind, std::uint64_t offset,
                       const Body& body);
  HttpResponse follow(const std::string& url, RequestKind kind, std::uint64_t offset,
                      const Body& body);

  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::string origin_;
  std::string token_;
  OnWait on_wait_;
};

/// The minimum number of bytes per connection that counts as progress; a server that stalls sends
/// fewer.
inline constexpr std::uint64_t kMinProgressBytes = 30'000;

/// Throws the error for a reply that is not a success: TransientError for 408, 429 and 5xx, else a
/// fovea::Error that says what to do. `subject` names what was requested.
[[noreturn]] void fail_with_status(const HttpResponse& response, const std::string& subject);

}  // namespace fovea::hub
