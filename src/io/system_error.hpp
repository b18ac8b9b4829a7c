// Failed system calls as fovea::Error.
#pragma once

#include <filesystem>
#include <string_view>

namespace fovea::io {

/// Throws fovea::Error "<path>: cannot <action>: <reason>", the reason being errno's; a
/// ResourceError when the process or the machine ran out of descriptors, memory or threads.
[[noreturn]] void fail_with_errno(const std::filesystem::path& path, std::string_view action);

/// The same without a path, for callers whose caller names it.
[[noreturn]] void fail_with_errno(std::string_view action);

}  // namespace fovea::io
