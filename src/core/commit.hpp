// The commit that this program was built from.
#pragma once

namespace fovea {

/// "d202b969dd3c", with "-modified" behind it where the checkout had other contents, or "unknown".
extern const char* const built_from_commit;  // cmake/Commit.cmake writes it

}  // namespace fovea
