// Determines a command's model from -m, the first argument, or FOVEA_MODEL.
#include "cli/model_option.hpp"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/options.hpp"

namespace fovea::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExample =
    "such as -m google/siglip2-base-patch16-224 after `fovea pull google/siglip2-base-patch16-224`";

[[noreturn]] void throw_model_error(const std::string& message) {
  throw CLI::ValidationError(message, CLI::ExitCodes::ValidationError);
}

bool is_model_folder(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::path(path) / "config.json", error);
}

// Rejects a first argument that cannot be a model: it is an input, and -m is missing.
void check_position(const std::string& position) {
  std::error_code error;
  if (fs::is_directory(position, error) && !is_model_folder(position)) {
    throw_model_error(
        fmt::format("{} is not a model folder (it has no config.json); give the model with -m, {}",
                    position, kExample));
  }
  const std::string name = fs::path(position).filename();
  const bool names_a_model = name == "config.json" || name.ends_with(".safetensors") ||
                             name == "model.safetensors.index.json";
  const bool is_list = position == "-" || position.starts_with('@');
  if (is_list ||
      (fs::exists(position, error) && !fs::is_directory(position, error) && !names_a_model)) {
    throw_model_error(fmt::format(
        "no model was given, and {} is an input; give the model with -m, {}", position, kExample));
  }
}

[[noreturn]] void throw_missing_model() {
  throw_model_error(
      fmt::format("no model was given; give it as the first argument or with "
                  "-m, {}, or set FOVEA_MODEL",
                  kExample));
}

CLI::Option* add_model_option(CLI::App& command, std::string& model, const char* help) {
  return add_text(command, "-m,--model", "MODEL", model, help)->group(kInputGroup);
}

constexpr const char* kHelp = "Model: a folder, or the name of a pulled model";

}  // namespace

std::function<void()> add_model(CLI::App& command, std::string& model) {
  const auto position = std::make_shared<std::string>();
  add_text(command, "MODEL", "", *position, "Model, unless -m names it")->group(kInputGroup);
  CLI::Option* option = add_model_option(command, model, kHelp);
  return [&command, &model, position, option] {
    if (!position->empty() && is_typed(command, *option)) {
      throw_model_error(fmt::format("two models were given: -m {} and {}", model, *position));
    }
    model = position->empty() ? model : *position;
    if (model.empty()) {
      throw_missing_model();
    }
  };
}

std::function<void()> add_model(CLI::App& command, std::string& model,
                                std::vector<std::string>& inputs) {
  CLI::Option* option = add_model_option(command, model, kHelp);
  return [&command, &model, &inputs, option] {
    const bool takes_first_input =
        model.empty() ||
        (!is_typed(command, *option) && !inputs.empty() && is_model_folder(inputs.front()));
    if (!takes_first_input) {
      return;
    }
    if (inputs.empty()) {
      throw_missing_model();
    }
    check_position(inputs.front());
    model = std::move(inputs.front());
    inputs.erase(inputs.begin());
  };
}

void require_inputs(const std::string& model, const std::vector<std::string>& inputs,
                    const char* example) {
  if (inputs.empty()) {
    throw_model_error(
        fmt::format("no inputs were given, such as {}; {} was taken as the model", example, model));
  }
}

CLI::Option* add_optional_model(CLI::App& command, std::string& model, const char* help) {
  return add_model_option(command, model, help);
}

}  // namespace fovea::cli
