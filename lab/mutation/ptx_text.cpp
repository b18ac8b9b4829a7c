// Finds instructions in compiled PTX, in which each instruction starts on a new line, after an
// optional guard and braces.
#include "lab/mutation/ptx_text.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::mutation {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kEntry = ".visible .entry";

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string_view take_word(std::string_view& text) {
  text = stripped(text);
  const std::size_t end = std::min(text.find_first_of(kSpace), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

int number_in(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Range of a kernel's text, from its .entry directive to its last brace.
struct Range {
  std::string_view name{};
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Returns the offset after the brace that closes the first one after `offset`, or the end of the
/// text if there is none.
std::size_t end_of_block(std::string_view ptx, std::size_t offset) {
  int depth = 0;
  while ((offset = ptx.find_first_of("{}", offset)) != std::string_view::npos) {
    depth += ptx[offset] == '{' ? 1 : -1;
    ++offset;
    if (depth == 0) {
      return offset;
    }
  }
  return ptx.size();
}

std::vector<Range> find_kernels(std::string_view ptx) {
  std::vector<Range> ranges;
  std::size_t offset = 0;
  while ((offset = ptx.find(kEntry, offset)) != std::string_view::npos) {
    const std::size_t name = ptx.find_first_not_of(kSpace, offset + kEntry.size());
    if (name == std::string_view::npos) {
      break;
    }
    const std::size_t end = end_of_block(ptx, offset);
    ranges.push_back({ptx.substr(name, ptx.find_first_of("( \t\r\n", name) - name), offset, end});
    offset = end;
  }
  return ranges;
}

/// Returns the file names by number, from the table that follows the kernels.
std::map<int, std::string> read_file_names(std::string_view ptx) {
  constexpr std::string_view kFile = ".file";
  std::map<int, std::string> files;
  std::size_t offset = 0;
  while ((offset = ptx.find(kFile, offset)) != std::string_view::npos) {
    std::string_view rest = ptx.substr(offset, ptx.find('\n', offset) - offset);
    offset += kFile.size();
    rest.remove_prefix(kFile.size());
    const int number = number_in(take_word(rest));
    const std::size_t open = rest.find('"');
    const std::size_t close = rest.rfind('"');
    if (open < close) {
      files[number] = rest.substr(open + 1, close - open - 1);
    }
  }
  return files;
}

std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> operands;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += c == '[' || c == '{' || c == '(' ? 1 : c == ']' || c == '}' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      operands.push_back(stripped(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (const std::string_view last = stripped(text.substr(begin)); !last.empty()) {
    operands.push_back(last);
  }
  return operands;
}

/// Parses an instruction at the beginning of the text. Returns std::nullopt if there is none.
std::optional<Statement> parse_statement(std::string_view text) {
  Statement statement;
  const std::size_t end = text.find(';');
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  statement.text = text.substr(0, end + 1);
  std::string_view rest = text.substr(0, end);
  if (rest.starts_with('@')) {
    statement.guard = take_word(rest);
  }
  statement.opcode = take_word(rest);
  statement.operands = split_operands(rest);
  return statement;
}

}  // namespace

bool Statement::is(std::string_view beginning) const {
  return opcode.starts_with(beginning) &&
         (opcode.size() == beginning.size() || opcode[beginning.size()] == '.');
}

std::vector<Statement> parse_statements(std::string_view ptx, std::string_view kernel) {
  const std::vector<Range> ranges = find_kernels(ptx);
  const auto range = std::ranges::find(ranges, kernel, &Range::name);
  if (range == ranges.end()) {
    fail("the PTX has no kernel {}", kernel);
  }
  const std::map<int, std::string> files = read_file_names(ptx);
  std::vector<Statement> statements;
  std::string source;
  int line = 1 + static_cast<int>(std::count(
                     ptx.begin(), ptx.begin() + static_cast<std::ptrdiff_t>(range->begin), '\n'));
  std::size_t offset = ptx.find("\n{", range->begin) + 1;
  line += static_cast<int>(std::count(ptx.begin() + static_cast<std::ptrdiff_t>(range->begin),
                                      ptx.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  while (offset < range->end) {
    const std::string_view text = ptx.substr(offset, range->end - offset);
    if (text.front() == '\n') {
      ++line;
      ++offset;
    } else if (text.find_first_of(" \t\r{}") == 0) {
      ++offset;
    } else if (text.starts_with("//") || text.starts_with('.') || text.starts_with('$')) {
      if (text.starts_with(".loc")) {
        std::string_view rest = text.substr(4, text.find('\n') - 4);
        const auto file = files.find(number_in(take_word(rest)));
        source = file == files.end()
                     ? ""
                     : fmt::format("{}:{}", file->second, number_in(take_word(rest)));
      }
      offset += std::min(text.find('\n'), text.size());
    } else {
      std::optional<Statement> statement = parse_statement(text);
      if (!statement.has_value()) {
        fail("line {} of the PTX is not an instruction", line);
      }
      statement->line = line;
      statement->source = source;
      offset += statement->text.size();
      line += static_cast<int>(std::ranges::count(statement->text, '\n'));
      statements.push_back(*std::move(statement));
    }
  }
  return statements;
}

std::string with_only(std::string_view ptx, const std::set<std::string, std::less<>>& kernels) {
  std::string text;
  std::size_t offset = 0;
  for (const Range& range : find_kernels(ptx)) {
    text += ptx.substr(offset, range.begin - offset);
    const std::string_view body = ptx.substr(range.begin, range.end - range.begin);
    if (kernels.contains(range.name)) {
      text += body;
    } else {
      text.append(static_cast<std::size_t>(std::ranges::count(body, '\n')), '\n');
    }
    offset = range.end;
  }
  return text + std::string(ptx.substr(offset));
}

}  // namespace fovea::mutation
