// Reads lists of texts and of labels.
#include "cli/text_lists.hpp"

#include <cstddef>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/line_reader.hpp"
#include "io/text.hpp"

namespace fovea::cli {
namespace {

// Maximum memory for all lists, including a fixed cost per text.
constexpr std::size_t kMaxListBytes = std::size_t{1} << 30;
// The longest line: a JSON string takes up to six characters for each byte of a text.
constexpr std::size_t kMaxTextBytes = io::LineReader::kMaxBytes;
constexpr std::size_t kMaxStringBytes = 6 * kMaxTextBytes;

std::string parse_string(std::string_view line) {
  // Other JSON is not parsed, because a line of brackets would take a hundred times its size in
  // memory.
  if (const std::size_t begin = line.find_first_not_of(" \t\r");
      begin != std::string_view::npos && line[begin] == '"') {
    if (const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
        parsed.is_string()) {
      return parsed;
    }
  }
  fail("expected one JSON string, such as \"a red bicycle\"");
}

class TextLists {
 public:
  void add_text(std::string text) {
    bytes_ += text.size() + sizeof(std::string);
    if (bytes_ > kMaxListBytes) {
      fail("there are too many texts: they take more than {} bytes", kMaxListBytes);
    }
    texts_.push_back(std::move(text));
  }

  /// Adds the texts of a list; the path "-" means the standard input.
  void add_list(const std::string& path) {
    const std::string list_name = path == "-" ? "the standard input" : io::escape(path);
    const bool is_jsonl = path.ends_with(".jsonl");
    const auto with_location = [&](const std::string& location, const auto& action) {
      try {
        return action();
      } catch (const Error& error) {
        rethrow_unless_finding(error);
        fail("{}{}: {}", list_name, location, error.what());
      }
    };
    auto lines = with_location(
        "", [&] { return io::LineReader(path, '\n', is_jsonl ? kMaxStringBytes : kMaxTextBytes); });
    for (std::string line; with_location("", [&] { return lines.next(line); });) {
      if (is_jsonl) {
        line = with_location(fmt::format(", line {}", lines.number()),
                             [&] { return parse_string(line); });
      }
      add_text(std::exchange(line, {}));
    }
  }

  std::vector<std::string> take_texts() { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<std::string> read_texts(const std::vector<std::string>& inputs) {
  TextLists lists;
  for (const std::string& input : inputs) {
    if (input == "-" || (input.starts_with('@') && !input.starts_with("@@"))) {
      lists.add_list(input == "-" ? input : input.substr(1));
    } else {
      lists.add_text(input.substr(input.starts_with('@') ? 1 : 0));
    }
  }
  return lists.take_texts();
}

std::vector<std::string> read_labels(const std::string& text) {
  std::vector<std::string> labels;
  if (text == "-" || (text.starts_with('@') && !text.starts_with("@@"))) {
    labels = read_texts({text});
  } else {
    std::istringstream parts(text.substr(text.starts_with('@') ? 1 : 0));
    for (std::string label; std::getline(parts, label, ',');) {
      labels.push_back(std::move(label));
    }
  }
  std::erase(labels, "");
  return labels;
}

}  // namespace fovea::cli
