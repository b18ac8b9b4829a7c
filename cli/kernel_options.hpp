// Options of `fovea kernel` that are defined in files of their own.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "cli/kernel_arguments.hpp"
#include "cli/options.hpp"

namespace fovea::cli {

/// An option that takes tuning parameters as JSON.
CLI::Option* add_json_parameters(CLI::App& command, const char* name, const char* help,
                                 const std::function<void(std::map<std::string, int>)>& take);

/// What `fovea kernel evolve` alone takes.
void add_evolve(CLI::App& command, KernelArguments& arguments);

}  // namespace fovea::cli
