/* How Fovea's C interface says that something failed. */
#ifndef FOVEA_C_STATUS_H
#define FOVEA_C_STATUS_H

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

/* "0.1.0" */
FOVEA_API const char* fovea_version(void);

#ifdef __cplusplus
}
#endif

#endif
