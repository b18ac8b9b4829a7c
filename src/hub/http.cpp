// HttpClient: implemented with libcurl's easy interface. Exceptions in callbacks are stored, and
// rethrown after libcurl returns.
#include "hub/http.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <curl/curl.h>

#include "core/released.hpp"
#include "core/text.hpp"
#include "core/wording.hpp"
#include "hub/cache.hpp"
#include "io/text.hpp"

namespace fovea::hub {
namespace {

constexpr long kConnectTimeoutSeconds = 20;
// A transfer that stays slower than kMinBytesPerSecond for kStallSeconds is aborted and retried.
// As in huggingface_hub, HF_HUB_DOWNLOAD_TIMEOUT overrides kStallSeconds and HF_HUB_ETAG_TIMEOUT
// overrides kTextSeconds.
constexpr long kMinBytesPerSecond = 1000;
constexpr long kStallSeconds = 30;
static_assert(kMinProgressBytes >= kMinBytesPerSecond * kStallSeconds);
// A reply that is not a file has to be complete within this time.
constexpr long kTextSeconds = 60;
// The time without data after which the user is notified of the wait.
constexpr std::chrono::seconds kMaxSilence{4};
constexpr int kMaxRedirects = 10;
// The limit in bytes on the body of an error reply, which is ignored.
constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10;

// Returns a number of seconds from an environment variable, else `fallback`.
long seconds_from_environment(const char* name, long fallback) {
  const std::string text = environment(name);
  constexpr long kMaxSeconds = 86400;
  if (text.empty()) {
    return fallback;
  }
  const std::optional<long> seconds = parse_number<long>(text);
  if (!seconds || *seconds < 1 || *seconds > kMaxSeconds) {
    fail("{} is \"{}\"; expected a whole number of seconds from 1 to {}", name, io::escape(text),
         kMaxSeconds);
  }
  return *seconds;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Returns the URL without its query for messages: queries of CDN URLs contain secrets.
std::string url_for_messages(const std::string& url) {
  return io::escape(url.substr(0, url.find('?')));
}

template <typename Value>
void set(CURL* curl, CURLoption option, Value value) {
  if (const CURLcode code = curl_easy_setopt(curl, option, value); code != CURLE_OK) {
    fail("libcurl rejects option {}: {}", static_cast<int>(option), curl_easy_strerror(code));
  }
}

// Returns the file of trusted certificates, or "" for libcurl's default. The variables are those of
// the curl tool, OpenSSL and Python's requests. libcurl only knows the store of the distribution
// that it was built on, so those of Debian, Fedora and openSUSE are tried.
std::string certificate_file() {
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"}) {
    if (std::string path = environment(name); !path.empty()) {
      return path;
    }
  }
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (std::error_code ignored; std::filesystem::exists(path, ignored)) {
      return path;
    }
  }
  return "";
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

[[noreturn]] void fail_with_curl(CURLcode code, const char* detail, const std::string& url) {
  const std::string reason = *detail != '\0' ? detail : curl_easy_strerror(code);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      fail(
          "{}: the server's certificate is not trusted ({}): if your network inspects TLS, name "
          "its certificate authority's file in SSL_CERT_FILE; otherwise install ca-certificates",
          url_for_messages(url), reason);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      fail("{}: this URL cannot be fetched ({})", url_for_messages(url), reason);
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
      fail("{}: {}", url_for_messages(url), reason);
    default:
      throw TransientError(fmt::format("{}: {}", url_for_messages(url), reason));
  }
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = nullptr;
  ~Handle() { curl_easy_cleanup(curl); }
};

// The state that the callbacks of one request share.
struct HttpClient::Transfer {
  using Clock = std::chrono::steady_clock;

  HttpResponse response;
  const Body* body = nullptr;
  const OnWait* on_wait = nullptr;
  CURL* curl = nullptr;
  std::exception_ptr error;
  Clock::time_point last_byte_time = Clock::now();
  bool has_notified = false;  // whether the user was notified of the current wait
  long connect_seconds = kConnectTimeoutSeconds;
  bool is_connected = false;
  long max_answer_seconds = 0;    // maximum time without data once connected
  std::size_t ignored_bytes = 0;  // size of the body of an error reply so far

  /// Whether the transfer was ended because the ignored body is too long. The reply is still valid.
  [[nodiscard]] bool is_cut_off() const { return ignored_bytes > kMaxErrorBytes; }

  static std::size_t on_header(const char* data, std::size_t, std::size_t size, void* self) {
    return static_cast<Transfer*>(self)->guard(size, [&](Transfer& transfer) {
      transfer.reset_wait();
      const std::string_view line(data, size);
      if (line.starts_with("HTTP/")) {  // a new reply, after an interim "100 Continue"
        transfer.response.headers.clear();
        return;
      }
      const std::size_t colon = line.find(':');
      if (colon != std::string_view::npos) {
        transfer.response.headers[lower_case(trimmed(line.substr(0, colon)))] =
            trimmed(line.substr(colon + 1));
      }
    });
  }

  static std::size_t on_body(const char* data, std::size_t, std::size_t size, void* self) {
    auto* const context = static_cast<Transfer*>(self);
    const std::size_t consumed = context->guard(size, [&](Transfer& transfer) {
      transfer.reset_wait();
      curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &transfer.response.status);
      if (transfer.response.status == 200 || transfer.response.status == 206) {
        (*transfer.body)(transfer.response, std::as_bytes(std::span(data, size)));
      } else {
        transfer.ignored_bytes += size;
      }
    });
    return context->is_cut_off() ? 0 : consumed;
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    constexpr std::size_t kContinue = 1;
    return static_cast<Transfer*>(self)->guard(
               kContinue,
               [](Transfer& transfer) { (*transfer.on_wait)(transfer.wait_notice()); }) == kContinue
               ? 0
               : 1;
  }

  // Returns a message for the user, once per period without data.
  std::string wait_notice() {
    curl_off_t connect_time = 0;
    curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &connect_time);
    if (connect_time != 0 && !std::exchange(is_connected, true)) {
      reset_wait();
    }
    if (has_notified || Clock::now() - last_byte_time < kMaxSilence) {
      return "";
    }
    has_notified = true;
    return fmt::format("{}: waiting for {}, for {} s at most", url_for_messages(response.url),
                       is_connected ? "an answer" : "a connection",
                       is_connected ? max_answer_seconds : connect_seconds);
  }

  void reset_wait() {
    last_byte_time = Clock::now();
    has_notified = false;
  }

  // Runs a callback's work. An exception is kept here until libcurl has returned.
  template <typename Work>
  std::size_t guard(std::size_t size, const Work& work) {
    try {
      work(*this);
      return size;
    } catch (...) {
      if (!error) {
        error = std::current_exception();
      }
      return size == 0 ? 1 : 0;  // anything but `size` ends the transfer
    }
  }
};

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::int64_t HttpResponse::content_length() const {
  const auto length = parse_number<std::int64_t>(header("content-length"));
  return length && *length >= 0 ? *length : -1;
}

std::string url_origin(const std::string& url) {
  const Released<CURLU, curl_url_cleanup> parsed(curl_url());
  if (!parsed || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    fail("{}: not a URL", url_for_messages(url));
  }
  const auto part = [&](CURLUPart url_part) {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), url_part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) {
      fail("{}: not a complete URL", url_for_messages(url));
    }
    std::string copy = lower_case(text);
    curl_free(text);
    return copy;
  };
  const std::string scheme = part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") {
    fail("{}: not an http or https URL", url_for_messages(url));
  }
  return fmt::format("{}://{}:{}", scheme, part(CURLUPART_HOST), part(CURLUPART_PORT));
}

HttpClient::HttpClient(const std::string& endpoint, std::string token, OnWait on_wait)
    : handle_(std::make_unique<Handle>()), token_(std::move(token)), on_wait_(std::move(on_wait)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  handle_->curl = curl_easy_init();
  if (handle_->curl == nullptr) {
    fail("cannot initialise libcurl");
  }
  origin_ = url_origin(endpoint);
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::perform(const std::string& url, RequestKind kind, std::uint64_t offset,
                                 const Body& body) {
  CURL* curl = handle_->curl;
  curl_easy_reset(curl);  // keeps open connections
  Transfer transfer;
  transfer.body = &body;
  transfer.on_wait = &on_wait_;
  transfer.curl = curl;
  transfer.response.url = url;
  std::array<char, CURL_ERROR_SIZE> detail{};
  set(curl, CURLOPT_ERRORBUFFER, detail.data());
  set(curl, CURLOPT_URL, url.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_USERAGENT, "fovea/" FOVEA_VERSION);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_CONNECTTIMEOUT, transfer.connect_seconds);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, kMinBytesPerSecond);
  transfer.max_answer_seconds = seconds_from_environment("HF_HUB_DOWNLOAD_TIMEOUT", kStallSeconds);
  set(curl, CURLOPT_LOW_SPEED_TIME, transfer.max_answer_seconds);
  if (kind != RequestKind::kFile) {
    const long limit = seconds_from_environment("HF_HUB_ETAG_TIMEOUT", kTextSeconds);
    set(curl, CURLOPT_TIMEOUT, limit);
    transfer.max_answer_seconds = std::min(transfer.max_answer_seconds, limit);
    transfer.connect_seconds = std::min(transfer.connect_seconds, limit);
  }
  set(curl, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(curl, CURLOPT_HEADERDATA, &transfer);
  set(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(curl, CURLOPT_WRITEDATA, &transfer);
  set(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(curl, CURLOPT_XFERINFODATA, &transfer);
  set(curl, CURLOPT_NOPROGRESS, 0L);
  if (const std::string file = certificate_file(); !file.empty()) {
    set(curl, CURLOPT_CAINFO, file.c_str());
  }
  if (kind == RequestKind::kHead) {
    set(curl, CURLOPT_NOBODY, 1L);
  }
  // Sizes and hashes are those of the uncompressed file.
  curl_slist* lines = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (offset > 0) {
    lines = curl_slist_append(lines, fmt::format("Range: bytes={}-", offset).c_str());
  }
  if (!token_.empty() && url_origin(url) == origin_) {
    lines = curl_slist_append(lines, fmt::format("Authorization: Bearer {}", token_).c_str());
  }
  const Released<curl_slist, curl_slist_free_all> headers(lines);
  set(curl, CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(curl);
  set(curl, CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));  // `detail` is about to be destroyed
  if (transfer.error) {
    std::rethrow_exception(transfer.error);
  }
  if (code != CURLE_OK && !transfer.is_cut_off()) {
    fail_with_curl(code, detail.data(), url);
  }
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.response.status);
  char* redirect = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr && is_redirect(transfer.response.status)) {
    transfer.response.redirect = redirect;
  }
  if (transfer.is_cut_off() && is_redirect(transfer.response.status)) {
    fail("{}: the redirect has a body of more than {} bytes, so it is not from a hub",
         url_for_messages(url), kMaxErrorBytes);
  }
  return std::move(transfer.response);
}

HttpResponse HttpClient::head(const std::string& url) {
  return follow(url, RequestKind::kHead, 0, {});
}

HttpResponse HttpClient::get(const std::string& url, std::uint64_t offset, const Body& body) {
  return follow(url, RequestKind::kFile, offset, body);
}

HttpResponse HttpClient::get_text(const std::string& url, std::size_t max_bytes,
                                  std::string& text) {
  text.clear();
  return follow(url, RequestKind::kText, 0,
                [&](const HttpResponse&, std::span<const std::byte> bytes) {
                  if (bytes.size() > max_bytes - text.size()) {
                    fail("{}: the reply is longer than {} bytes, so it is not from a hub",
                         url_for_messages(url), max_bytes);
                  }
                  text += as_text(bytes);
                });
}

HttpResponse HttpClient::follow(const std::string& url, RequestKind kind, std::uint64_t offset,
                                const Body& body) {
  HttpResponse response = perform(url, kind, offset, body);
  for (int hops = 0; !response.redirect.empty(); ++hops) {
    if (kind == RequestKind::kHead && url_origin(response.redirect) != url_origin(response.url)) {
      break;  // a content network, whose replies lack the hub's headers
    }
    if (hops == kMaxRedirects) {
      fail("{}: more than {} redirects", url_for_messages(url), kMaxRedirects);
    }
    if (response.url.starts_with("https:") && !response.redirect.starts_with("https:")) {
      fail("{}: redirects from https to {}; such a redirect is not followed",
           url_for_messages(response.url), url_for_messages(response.redirect));
    }
    HttpResponse next = perform(response.redirect, kind, offset, body);
    if (kind == RequestKind::kHead) {
      response.headers.erase("content-length");
      response.headers.erase("etag");
      next.headers.merge(response.headers);
    }
    response = std::move(next);
  }
  return response;
}

void fail_with_status(const HttpResponse& response, const std::string& subject) {
  const std::string detail = response.header("x-error-message");
  const std::string message = fmt::format("{}: the server replied {}{}{}", subject, response.status,
                                          detail.empty() ? "" : ": ", io::escape(detail));
  switch (response.status) {
    case 401:
    case 403:
      fail("{} ({}). {}", message, url_for_messages(response.url),
           response.header("x-error-code") == "GatedRepo"
               ? "The model is gated: accept its terms on its page, then set HF_TOKEN to a token "
                 "of that account"
               : "The model does not exist, or is private or gated: check the name, and set "
                 "HF_TOKEN to a token that may read it");
    case 404:
      fail("{} ({}). Check the name of the model and {}", message, url_for_messages(response.url),
           option_words("revision"));
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      throw TransientError(fmt::format("{} ({})", message, url_for_messages(response.url)));
    default:
      fail("{} ({})", message, url_for_messages(response.url));
  }
}

}  // namespace fovea::hub
