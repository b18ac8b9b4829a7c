// The model of a command: -m, FOVEA_MODEL, or the first position.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace fovea::cli {

/// Adds -m to a command that takes a model and nothing else: its position is the model, too.
/// The result is to be called in the command's callback: it decides, and throws
/// CLI::ValidationError when no model was named or two were.
[[nodiscard]] std::function<void()> add_model(CLI::App& command, std::string& model);

/// The same for a command whose positions are `inputs`, which must be declared by the caller. With
/// -m, all positions are inputs; without it, the first position is the model where FOVEA_MODEL
/// names none, or where it is a model folder.
[[nodiscard]] std::function<void()> add_model(CLI::App& command, std::string& model,
                                              std::vector<std::string>& inputs);

/// Throws CLI::ValidationError when there are no inputs, such as `example`.
void require_inputs(const std::string& model, const std::vector<std::string>& inputs,
                    const char* example = "a folder of photos");

/// The rule, for the notes of commands with inputs.
inline constexpr const char* kModelRule =
    "The first argument is the model where neither -m nor FOVEA_MODEL names one, and where it is a "
    "model folder, whatever FOVEA_MODEL says; with -m, all arguments are inputs.";

/// Adds -m to a command that can do without.
CLI::Option* add_optional_model(CLI::App& command, std::string& model, const char* help);

}  // namespace fovea::cli
