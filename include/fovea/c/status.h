/* How Fovea's C interface says that something failed.
 *
 * Of all functions: those that return fovea_status refuse NULL where something is expected, unless
 * NULL is said to mean something; those that return anything else must not be given it. In a child
 * of fork() encoders and runs of the parent cannot be used, for their threads stayed behind:
 * functions that return fovea_status say so, and freeing them there does nothing. */
#ifndef FOVEA_C_STATUS_H
#define FOVEA_C_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FOVEA_API __attribute__((visibility("default")))

typedef enum fovea_status {
  FOVEA_OK = 0,
  FOVEA_FAILED = 1 /* fovea_last_error() says why */
} fovea_status;

/* What failed last in the calling thread, for people, UTF-8; "" when nothing has. The text is valid
 * until another call of this thread fails. */
FOVEA_API const char* fovea_last_error(void);

/* Called with what users should know of operators that do not run as they might expect, for people,
 * UTF-8, each text once a GPU; from the thread that calls the operator, and valid during the call.
 * Null, as at first, for nobody. */
typedef void (*fovea_note_handler)(const char* note);

/* The handler before. */
FOVEA_API fovea_note_handler fovea_set_note_handler(fovea_note_handler handler);

/* To be called before a process ends whose threads may still be in Fovea's functions: the end tears
 * down what they compute with. Runs of encoders are stopped (fovea_embed_wait says so), other calls
 * are waited for, for `milliseconds` at most; what would begin later fails. Fails when something
 * still computes by then; it may be called again. */
FOVEA_API fovea_status fovea_shut_down(int32_t milliseconds);

/* "0.1.0" */
FOVEA_API const char* fovea_version(void);

#ifdef __cplusplus
}
#endif

#endif
