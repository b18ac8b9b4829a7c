// Refuses outputs that are inputs of the same job.
#pragma once

#include <filesystem>

#include "core/stop.hpp"
#include "fovea/job.hpp"

namespace fovea::pipeline {

/// Throws fovea::Error, naming both, when a file that a job with this output would replace is one
/// of its inputs, under whatever name: an input of the command line, or of a list that is a file;
/// or the index of such an array. What the standard input lists cannot be known before it is read.
/// `output`: an array ("x.npy") or a folder. Throws Interrupted when `stop` is set.
void refuse_own_outputs(const InputOptions& input, const std::filesystem::path& output,
                        StopFlag stop);

/// The folder of the command line that holds the output, or is it; "" when none does.
[[nodiscard]] std::string input_around(const InputOptions& input,
                                       const std::filesystem::path& output);

/// Throws fovea::Error when a job that writes an array, `output`, would replace a file that no such
/// job wrote: an array without its index beside it, or such an index or list of errors. Nothing
/// unless `output` is an array, and not to be overwritten.
void refuse_foreign_files(const std::filesystem::path& output, bool overwrite);

}  // namespace fovea::pipeline
