// Reports failed system calls as fovea::Error.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::io {

/// Throws fovea::Error "<path>: cannot <action>: <reason>", the reason being errno's; a
/// ResourceError when the process or the machine ran out of descriptors, memory or threads.
[[noreturn]] void fail_with_errno(const std::filesystem::path& path, std::string_view action);

/// Throws the error without a path, which a caller adds by with_path().
[[noreturn]] void fail_with_errno(std::string_view action);

/// Runs `work`, and prefixes the messages of its errors with the path.
template <typename Work>
auto with_path(const std::filesystem::path& path, const Work& work) {
  try {
    return work();
  } catch (const Interrupted&) {
    throw;
  } catch (const ResourceError& error) {
    fail_for_resources("{}: {}", escape(path.native()), error.what());
  } catch (const Error& error) {
    fail("{}: {}", escape(path.native()), error.what());
  }
}

}  // namespace fovea::io
