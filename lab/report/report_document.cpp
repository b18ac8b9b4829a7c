// Values of documents, read defensively, and the pieces that all sections are made of.
#include "lab/report/report_document.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

#include <fmt/format.h>

#include "core/error.hpp"
#include "io/html.hpp"
#include "io/text.hpp"
#include "lab/system/measurable.hpp"

namespace fovea::lab::report {
namespace {

const Json& value_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) {
    fail("it has no \"{}\"", key);
  }
  return *found;
}

std::string as_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string with_commas(const std::string& whole) {
  std::string text;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const bool is_between = i > 0 && whole[i - 1] != '-';
    text += is_between && (whole.size() - i) % 3 == 0 ? "," : "";
    text += whole[i];
  }
  return text;
}

}  // namespace

std::string Document::when() const {
  return date + (commit.empty() ? "" : " at " + commit);
}

std::string Document::origin() const {
  return device + (date.empty() ? "" : ", " + when());
}

double number(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (!value.is_number()) {
    fail("its \"{}\" is no number", key);
  }
  return measurable(value.get<double>(), key);
}

double number(const Json& object, const char* key, double otherwise) {
  return object.contains(key) && object[key].is_number() ? number(object, key) : otherwise;
}

int integer(const Json& object, const char* key) {
  const double value = number(object, key);
  constexpr double kMost = 1e9;
  if (std::abs(value) > kMost || value != std::floor(value)) {
    fail("its \"{}\" is {:g}, and should be a whole number", key, value);
  }
  return static_cast<int>(value);
}

bool truth(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (!value.is_boolean()) {
    fail("its \"{}\" is neither true nor false", key);
  }
  return value.get<bool>();
}

std::string text(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (!value.is_string() && !value.is_number()) {
    fail("its \"{}\" is no text", key);
  }
  return as_text(value);
}

std::string text(const Json& object, const char* key, const char* otherwise) {
  const auto found = object.find(key);
  return found != object.end() && (found->is_string() || found->is_number()) ? as_text(*found)
                                                                             : otherwise;
}

const Json& list(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (!value.is_array() ||
      std::ranges::any_of(value, [](const Json& one) { return !one.is_object(); })) {
    fail("its \"{}\" is no list of objects", key);
  }
  return value;
}

const Json& part(const Json& object, const char* key) {
  static const Json empty = Json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : empty;
}

std::string values(const Json& object, const char* key) {
  std::string line;
  for (const auto& [name, value] : part(object, key).items()) {
    line += (line.empty() ? "" : ", ") + name + " " + as_text(value);
  }
  return line;
}

double share(const Json& object, const char* key) {
  constexpr double kMost = 1.02;  // of rounded parts of one
  const double value = number(object, key);
  if (value < 0 || value > kMost) {
    fail("its \"{}\" is {:g}, and should be a share from 0 to 1", key, value);
  }
  return value;
}

std::vector<std::pair<std::string, double>> shares(const Json& object, const char* key) {
  std::vector<std::pair<std::string, double>> found;
  const Json& all = part(object, key);
  for (const auto& [name, value] : all.items()) {
    if (value.is_number()) {
      found.emplace_back(name, share(all, name.c_str()));
    }
  }
  std::ranges::sort(found, {}, [](const auto& one) { return std::pair(-one.second, one.first); });
  return found;
}

std::string safe(std::string_view text) {
  return io::html_escape(io::printable(text));
}

std::string safe_name(std::string_view name) {
  std::string html;
  for (const char c : safe(name)) {
    html += c;
    html += c == '_' ? "<wbr>" : "";
  }
  return html;
}

std::string digits(double value) {
  const double size = std::abs(value);
  constexpr double kLongest = 1e12;
  constexpr double kShortest = 1e-4;
  if (size >= kLongest || (size > 0 && size < kShortest)) {
    return fmt::format("{:.3g}", value);
  }
  constexpr double kRoundsToHundred = 99.95;
  if (size >= kRoundsToHundred || size == 0) {
    return with_commas(fmt::format("{:.0f}", value));
  }
  return fmt::format("{:.{}f}", value, 2 - static_cast<int>(std::floor(std::log10(size))));
}

std::string percent(double share) {
  const double value = 100 * share;
  return fmt::format("{:.{}f}%", value, std::abs(value) < 10 && std::abs(value) > 0 ? 1 : 0);
}

std::string duration(double seconds) {
  const double size = std::abs(seconds);
  return size < 1e-3 ? digits(seconds * 1e6) + " µs"
         : size < 1  ? digits(seconds * 1e3) + " ms"
                     : digits(seconds) + " s";
}

std::string badge(std::string_view word, bool good) {
  return fmt::format("<span class=\"badge {}\">{}</span>", good ? "good" : "bad", safe(word));
}

std::string table(std::string_view caption, const std::vector<std::string>& columns,
                  const std::vector<Row>& rows) {
  constexpr std::size_t kMostOnPhones = 5;  // with more, each row becomes a list there
  std::string html = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table{}>"
      "<caption>{}</caption><thead><tr>",
      safe(caption), columns.size() > kMostOnPhones ? " class=\"lists\"" : "", safe(caption));
  const auto is_number = [&](std::size_t i) {
    return i < columns.size() && columns[i].starts_with('#');
  };
  const auto name_of = [&](std::size_t i) { return safe(columns[i].substr(is_number(i) ? 1 : 0)); };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    html +=
        fmt::format("<th scope=\"col\"{}>{}</th>", is_number(i) ? " class=\"n\"" : "", name_of(i));
  }
  html += "</tr></thead><tbody>\n";
  for (const Row& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += fmt::format("<td{} data-of=\"{}\">{}</td>", is_number(i) ? " class=\"n\"" : "",
                          i < columns.size() ? name_of(i) : "", row[i]);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string table(std::string_view caption, std::initializer_list<const char*> columns,
                  const std::vector<Row>& rows) {
  return table(caption, std::vector<std::string>(columns.begin(), columns.end()), rows);
}

std::string table(std::string_view caption, std::initializer_list<const char*> columns,
                  const std::map<std::string, Row>& rows) {
  const auto values = std::views::values(rows);
  return rows.empty() ? ""
                      : table(caption, columns, std::vector<Row>(values.begin(), values.end()));
}

std::string folded(std::string_view summary, std::string_view html) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", safe(summary), html);
}

}  // namespace fovea::lab::report
