// `fovea tokenize`: shows the tokens that a model makes of texts.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_option.hpp"
#include "cli/terminal.hpp"
#include "cli/text_lists.hpp"
#include "fovea/text.hpp"

namespace fovea::cli {
namespace {

struct TokenizeArguments {
  TokenizeOptions options;
  std::vector<std::string> inputs;
  std::string clean = "auto";
  JsonOutput json;
};

// Prints a text with its pieces and ids; repeated padding is shown as a count.
void print(const std::string& text, const TokenizedText& tokens) {
  const auto used_tokens = static_cast<std::size_t>(
      std::min(tokens.tokens + 1, static_cast<std::int64_t>(tokens.ids.size())));
  std::vector<std::string> pieces;
  pieces.reserve(used_tokens);
  for (std::size_t index = 0; index < used_tokens; ++index) {
    pieces.push_back(io::printable(tokens.pieces[index]));
  }
  const std::size_t padding = tokens.ids.size() - used_tokens;
  const std::string padding_text =
      padding == 0 ? ""
                   : fmt::format(" + {} x {} ({})", padding, io::printable(tokens.pieces.back()),
                                 tokens.ids.back());
  std::cout << fmt::format(
      "{}\n  {} token{}{}\n  {}\n  {}{}\n", io::printable(text), tokens.tokens,
      tokens.tokens == 1 ? "" : "s",
      tokens.truncated ? fmt::format(", of which the first {} are used", used_tokens - 1) : "",
      fmt::join(pieces, " "),
      fmt::join(tokens.ids.begin(), tokens.ids.begin() + static_cast<std::ptrdiff_t>(used_tokens),
                " "),
      padding_text);
}

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<TokenizeArguments>();
  TokenizeOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("tokenize", "Show the tokens that a model makes of texts");
  const auto take_model = add_model(*command, options.model, arguments->inputs);
  add_texts(*command, "TEXT", arguments->inputs, "Texts, or lists of them: @FILE, -");
  add_text_clean(*command, arguments->clean);
  add_integer(*command, "--length", {0, 65536}, options.length,
              "Number of tokens per text (0: the length of the model)");
  arguments->json.add_to(*command);
  explain(*command, {kModelRule, kTextLists},
          {"fovea tokenize \"A red bicycle\" -m models/tiny",
           "fovea tokenize @captions.txt -m models/tiny --json=tokens.json"});
  command->callback([arguments, take_model, &run] {
    take_model();
    require_inputs(arguments->options.model, arguments->inputs, "a text");
    run = [arguments] {
      const std::vector<std::string> texts = read_texts(arguments->inputs);
      arguments->options.clean = parse_text_clean(arguments->clean);
      const std::vector<TokenizedText> tokens = tokenize(arguments->options, texts);
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (std::size_t index = 0; index < texts.size(); ++index) {
        if (arguments->json.prints_text()) {
          print(texts[index], tokens[index]);
        }
        rows.push_back({{"text", texts[index]},
                        {"tokens", tokens[index].tokens},
                        {"truncated", tokens[index].truncated},
                        {"ids", tokens[index].ids},
                        {"pieces", tokens[index].pieces}});
      }
      arguments->json.write(
          {{"model", arguments->options.model},
           {"length", tokens.empty() ? arguments->options.length
                                     : static_cast<std::int64_t>(tokens.front().ids.size())},
           {"text_clean", arguments->clean},
           {"texts", rows}});
      return kDone;
    };
  });
}

}  // namespace fovea::cli
