/* How Fovea's C interface reports failures.
 *
 * These rules hold for all functions. Those that return fovea_status fail when a pointer is NULL,
 * unless their description gives NULL a meaning; all others return 0, "" or NULL for NULL, or -1
 * where that means none. In a child of fork() the encoders and runs of the
 * parent are unusable, because their threads exist only in the parent: functions that return
 * fovea_status fail, and freeing them there does nothing. */
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

/* The message of the last failure in the calling thread, for people, in UTF-8; "" when nothing has
 * failed. The text is valid until another call of this thread fails. */
FOVEA_API const char* fovea_last_error(void);

/* Called with a note for the user when an operator does not run as the user might expect. The note
 * is for people, in UTF-8; each text comes once per GPU. The call comes from the thread that calls
 * the operator, and the text is valid during the call. */
typedef void (*fovea_note_handler)(const char* note);

/* Sets the handler of notes; NULL (the default) disables it. Returns the previous handler. */
FOVEA_API fovea_note_handler fovea_set_note_handler(fovea_note_handler handler);

/* How messages spell the options and commands that they advise. */
typedef enum fovea_wording {
  FOVEA_WORDING_PROGRAM = 0, /* "--device cpu", "fovea pull NAME" */
  FOVEA_WORDING_PYTHON = 1,  /* device="cpu", fovea.pull("NAME") */
  FOVEA_WORDING_CPP = 2,     /* device = "cpu", fovea::pull({.id = "NAME"}): the default */
  FOVEA_WORDING_C = 3        /* device "cpu", fovea_pull("NAME", NULL, ...): the default once a
                              * function of this interface was called */
} fovea_wording;

/* Sets the wording of all messages of this process. To be called first. */
FOVEA_API void fovea_set_wording(fovea_wording wording);

/* Call this before a process ends while its threads may still be in Fovea's functions, because
 * the end of the process destroys what they compute with. It stops runs of encoders
 * (fovea_embed_wait says so) and waits for other calls, for `milliseconds` at most; calls that
 * begin later fail. Fails when something still computes after that time; it may be called again. */
FOVEA_API fovea_status fovea_shut_down(int32_t milliseconds);

/* The version of the library: "0.1.0". */
FOVEA_API const char* fovea_version(void);

#ifdef __cplusplus
}
#endif

#endif
