// Lists of texts, and how texts are cleaned.
#include "cli/text_inputs.hpp"

#include <cstddef>
#include <iostream>
#include <iterator>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/options.hpp"
#include "core/error.hpp"
#include "io/file.hpp"
#include "io/text.hpp"

namespace fovea::cli {
namespace {

constexpr std::size_t kMaxListBytes = std::size_t{1} << 30;

std::string read_standard_input() {
  std::string all{std::istreambuf_iterator<char>(std::cin), {}};
  if (std::cin.bad()) {
    fail("the standard input cannot be read");
  }
  return all;
}

std::string parse_string(std::string_view line, const std::string& file, std::size_t number) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, false);
  if (!parsed.is_string()) {
    fail("{}, line {}: expected one JSON string, such as \"a red bicycle\"", file, number);
  }
  return parsed;
}

void add_lines(std::string_view list, const std::string& file, bool as_json,
               std::vector<std::string>& texts) {
  for (std::size_t number = 1; !list.empty(); ++number) {
    const std::size_t end = list.find('\n');
    std::string_view line = list.substr(0, end);
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    texts.push_back(as_json ? parse_string(line, file, number) : std::string(line));
  }
}

}  // namespace

std::vector<std::string> read_texts(const std::vector<std::string>& inputs) {
  std::vector<std::string> texts;
  for (const std::string& input : inputs) {
    if (input == "-") {
      add_lines(read_standard_input(), "the standard input", false, texts);
    } else if (input.starts_with("@@")) {
      texts.push_back(input.substr(1));
    } else if (input.starts_with('@')) {
      const std::string path = input.substr(1);
      add_lines(io::read_small_file(path, kMaxListBytes), io::escape(path),
                path.ends_with(".jsonl"), texts);
    } else {
      texts.push_back(input);
    }
  }
  return texts;
}

CLI::Option* add_text_clean(CLI::App& command, std::string& clean) {
  return add_choice(command, "--text-clean", {"auto", "lower", "canonicalize", "none"}, clean,
                    "How a text is cleaned; auto: as the model was trained, lower for SigLIP 2, "
                    "canonicalize (no punctuation, too) for SigLIP")
      ->group(kInputGroup);
}

TextClean text_clean(const std::string& clean) {
  return clean == "auto"           ? TextClean::kAuto
         : clean == "lower"        ? TextClean::kLower
         : clean == "canonicalize" ? TextClean::kCanonicalize
                                   : TextClean::kNone;
}

}  // namespace fovea::cli
