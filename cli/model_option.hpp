// The model of a command, from -m, FOVEA_MODEL, or the first argument.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace fovea::cli {

/// Adds -m and a positional MODEL to a command without other inputs. Call the returned function in
/// the command's callback: it sets `model`, and throws CLI::ValidationError when no model or two
/// were given.
[[nodiscard]] std::function<void()> add_model(CLI::App& command, std::string& model);

/// The same for a command whose positionals are `inputs`, which the caller must declare. With -m,
/// all of them are inputs; without it, the first is the model if FOVEA_MODEL is not set or if it is
/// a model folder.
[[nodiscard]] std::function<void()> add_model(CLI::App& command, std::string& model,
                                              std::vector<std::string>& inputs);

/// Throws CLI::ValidationError when there are no inputs, such as `example`.
void require_inputs(const std::string& model, const std::vector<std::string>& inputs,
                    const char* example = "a folder of photos");

/// How the model is found, for the help of commands with inputs.
inline constexpr const char* kModelRule =
    "The first argument is the model if neither -m nor FOVEA_MODEL names one, or if it is a model "
    "folder and -m is not given; with -m, all arguments are inputs.";

/// Adds -m to a command that does not require a model.
CLI::Option* add_optional_model(CLI::App& command, std::string& model, const char* help);

}  // namespace fovea::cli
