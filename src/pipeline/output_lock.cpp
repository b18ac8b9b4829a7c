// OutputLock on the folder's lock file.
#include "pipeline/output_lock.hpp"

#include "core/error.hpp"
#include "io/text.hpp"

namespace fovea::pipeline {

OutputLock::OutputLock(const std::filesystem::path& folder)
    : lock_(folder / ".lock", [&] {
        fail("{}: another run is writing to this folder; wait for it or choose another output",
             io::escape(folder.native()));
      }) {}

}  // namespace fovea::pipeline
