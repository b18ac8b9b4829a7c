// Refuses outputs that would replace inputs of the same job or files of other programs.
#pragma once

#include <filesystem>

#include "core/stop.hpp"
#include "fovea/job.hpp"

namespace fovea::pipeline {

/// Throws fovea::Error, naming both files, when a job with this output would replace one of its
/// inputs: a file named on the command line or in a list, or the index of an array among them.
/// Links are detected. Names from the standard input are not checked, since it can be read only
/// once. `output`: an array ("x.npy") or a folder. Throws Interrupted when `stop` is set.
void refuse_own_outputs(const InputOptions& input, const std::filesystem::path& output,
                        StopFlag stop);

/// Returns the input folder that is, or contains, the folder of the output; "" when there is none.
[[nodiscard]] std::string input_containing(const InputOptions& input,
                                           const std::filesystem::path& output);

/// Throws fovea::Error when the job would replace a file that Fovea did not write: an array without
/// its index, or a file under the name of the index or of the errors that is neither. Does nothing
/// when `output` is a folder or may be overwritten.
void refuse_foreign_files(const std::filesystem::path& output, bool overwrite);

}  // namespace fovea::pipeline
