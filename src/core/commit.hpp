// The commit that this program was built from.
#pragma once

namespace fovea {

/// Such as "d202b969dd3c", with the suffix "-modified" if the checkout had uncommitted changes; or
/// "unknown".
extern const char* const built_from_commit;  // cmake/Commit.cmake writes it

}  // namespace fovea
