// What every HTML page of the program begins with, and text within it.
#pragma once

#include <string>
#include <string_view>

namespace fovea::io {

/// Text as HTML content or within a quoted attribute: markup characters become entities, control
/// characters "\xHH". `text` must be UTF-8.
[[nodiscard]] std::string html_escape(std::string_view text);

/// Marks a page as the program's own.
inline constexpr std::string_view kHtmlGenerator = "<meta name=\"generator\" content=\"Fovea\">";

/// A page up to and with <body>: the title as text, then the colours and type that all pages share,
/// light or dark as the reader's system is, and `style` behind them. The page may neither fetch nor
/// run anything, whatever a name in it holds; pictures are data: URIs.
[[nodiscard]] std::string html_head(std::string_view title, std::string_view style);

}  // namespace fovea::io
