// include/fovea/merge.hpp over src/collection.
#include "fovea/merge.hpp"

#include "collection/merge.hpp"
#include "core/error.hpp"

namespace fovea {

MergeReport merge_outputs(const MergeOptions& options) {
  try {
    return collection::merge(options);
  } catch (const Interrupted&) {
    return {.interrupted = true};
  }
}

}  // namespace fovea
