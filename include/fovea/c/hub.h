/* Models by name, for other languages: fetches them from a Hugging Face hub. */
#ifndef FOVEA_C_HUB_H
#define FOVEA_C_HUB_H

#include <stdint.h>

#include "fovea/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The progress of a pull; sizes are in bytes. The texts are valid during the call. */
typedef struct fovea_pull_progress {
  const char* file;   /* the file being fetched, such as "model.safetensors" */
  const char* notice; /* a note for the user, such as that a request is retried; else "" */
  uint64_t bytes;     /* of all files, present so far */
  uint64_t total;     /* of all files, as far as they are known */
  uint64_t received;  /* over the network, by this pull */
} fovea_pull_progress;

/* Called by the thread that pulls, at least every second, also while it only waits. Returns 0 to
 * continue; anything else ends the pull, which then fails with "interrupted". */
typedef int32_t (*fovea_pull_handler)(const fovea_pull_progress* progress, void* context);

/* Fetches the model `name` ("org/name") at `revision`, a branch, tag or commit (NULL: "main"), into
 * the local Hugging Face cache, as fovea::pull does. `handler` may be NULL. `folder` becomes the
 * path of the model's folder, which is valid until the same thread pulls again. */
FOVEA_API fovea_status fovea_pull(const char* name, const char* revision,
                                  fovea_pull_handler handler, void* context, const char** folder);

#ifdef __cplusplus
}
#endif

#endif
