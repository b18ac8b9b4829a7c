// Writes the head of an HTML page, and escapes text for HTML.
#include "io/html.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace fovea::io {
namespace {

using CharAndText = std::pair<char, std::string_view>;
constexpr CharAndText kHtmlEscapes[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

constexpr std::string_view kBaseStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #f6f5f2; --card: #fff; --tile: #ecebe6; --ink: #1d1d1b; --soft: #63625d;
  --line: #dfddd6; --accent: #0b6e6e; --on-accent: #fff; --badge: #f3e3bd; --on-badge: #5c4408;
  --copy: #dbe6f5; --on-copy: #1c4273;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #141516; --card: #1d1f20; --tile: #101112; --ink: #ecebe8; --soft: #a3a29c;
    --line: #303335; --accent: #5cc7c2; --on-accent: #06201f; --badge: #40351a; --on-badge: #f0d58c;
    --copy: #1e3350; --on-copy: #a9cdf7;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 90rem; padding: 2.25rem clamp(0.9rem, 4vw, 3rem) 3rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
header { margin-bottom: 1.75rem; }
h1 { margin: 0; font-size: 1.6rem; font-weight: 650; letter-spacing: -0.015em; }
h1, header p { overflow-wrap: anywhere; }
header p { margin: 0.35rem 0 0; color: var(--soft); }
h2 { margin: 0 0 0.75rem; font-size: 1rem; font-weight: 600; overflow-wrap: anywhere; }
h2 span { margin-left: 0.4em; color: var(--soft); font-size: 0.85rem; font-weight: 400; }
.badge {
  display: inline-block; align-self: start; margin: 0 0 0.3rem; padding: 0.05rem 0.5rem; border-radius: 1rem;
  background: var(--badge); color: var(--on-badge); font-size: 0.72rem; font-weight: 600;
}
.badge.copy { background: var(--copy); color: var(--on-copy); }
.badge.keep { background: var(--accent); color: var(--on-accent); }
details { margin-top: 1rem; font-size: 0.85rem; }
summary { cursor: pointer; color: var(--accent); font-weight: 600; }
footer {
  margin-top: 1.5rem; padding-top: 1rem; border-top: 1px solid var(--line);
  color: var(--soft); font-size: 0.8rem;
}
)css";

}  // namespace

std::string html_escape(std::string_view text) {
  std::string html;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const auto* escape = std::ranges::find(kHtmlEscapes, c, &CharAndText::first);
        escape != std::end(kHtmlEscapes)) {
      html += escape->second;
    } else if (byte < 0x20 || byte == 0x7f) {
      html += fmt::format("\\x{:02x}", byte);
    } else {
      html += c;
    }
  }
  return html;
}

std::string html_head(std::string_view title, std::string_view style) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "img-src data:; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "{}\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n",
      kHtmlGenerator, html_escape(title), kBaseStyle, style);
}

}  // namespace fovea::io
