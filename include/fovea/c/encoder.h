/* The encoder for other languages: it loads a model once, and embeds many images and texts in the
 * background.
 *
 * Functions may be called from any thread. Those that return fovea_status write their results only
 * when they return FOVEA_OK. */
#ifndef FOVEA_C_ENCODER_H
#define FOVEA_C_ENCODER_H

#include <stddef.h>
#include <stdint.h>

#include "fovea/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_encoder fovea_encoder;

/* `model`: a folder in Hugging Face layout or the name of a model in the local Hugging Face cache.
 * `device`: "auto", "cpu", "cuda", "cuda:N" or "emu". `precision`: "auto", or the name of another
 * row of fovea/precision.hpp. `threads`: compute threads, 0 for one per CPU. See
 * fovea::EncoderOptions. Fails when the model, the device or the precision is unavailable. */
FOVEA_API fovea_status fovea_encoder_load(const char* model, const char* device,
                                          const char* precision, int32_t threads,
                                          fovea_encoder** encoder);

/* The two towers of a model. */
typedef enum fovea_tower { FOVEA_TOWER_IMAGES = 0, FOVEA_TOWER_TEXTS = 1 } fovea_tower;

/* The same, but loads the tower `first`, a fovea_tower; the other one is loaded when it is first
 * needed. fovea_encoder_load loads the image tower. */
FOVEA_API fovea_status fovea_encoder_load_tower(const char* model, const char* device,
                                                const char* precision, int32_t threads,
                                                int32_t first, fovea_encoder** encoder);
/* The same with the folder of the model's calibrations for the precisions that need them; NULL or
 * "": that of the variable FOVEA_CALIBRATION, else where `fovea calibrate` writes them. */
FOVEA_API fovea_status fovea_encoder_load_calibrated(const char* model, const char* device,
                                                     const char* precision, int32_t threads,
                                                     int32_t first, const char* calibration,
                                                     fovea_encoder** encoder);
/* Frees an encoder; unfinished runs keep the memory that they need. NULL is ignored. */
FOVEA_API void fovea_encoder_free(fovea_encoder* encoder);

/* Dimension of the embeddings. */
FOVEA_API int64_t fovea_encoder_dimension(const fovea_encoder* encoder);
/* Side lengths that images are resized to, in pixels; 0 for a NaFlex model, whose images keep their
 * proportions. */
FOVEA_API int32_t fovea_encoder_height(const fovea_encoder* encoder);
FOVEA_API int32_t fovea_encoder_width(const fovea_encoder* encoder);
/* Images computed together by default: the recommended batch size. */
FOVEA_API int64_t fovea_encoder_batch_size(const fovea_encoder* encoder);
/* A description of the device for people, and the name of the precision, such as "bf16". Both are
 * valid as long as the encoder. */
FOVEA_API const char* fovea_encoder_device(const fovea_encoder* encoder);
FOVEA_API const char* fovea_encoder_precision(const fovea_encoder* encoder);

/* Loads the text tower now instead of with the first text. Fails when the model has none, or no
 * tokenizer. */
FOVEA_API fovea_status fovea_encoder_load_texts(fovea_encoder* encoder);
/* How the model turns the cosine of an image and a text into a logit, factor * cosine + bias, and a
 * probability, 1 / (1 + exp(-logit)), for each pair independently. Fails as
 * fovea_encoder_load_texts. */
FOVEA_API fovea_status fovea_encoder_logit_scale(fovea_encoder* encoder, double* factor,
                                                 double* bias);

typedef enum fovea_image_kind {
  FOVEA_IMAGE_FILE = 0,    /* `data`: a path, `size` bytes without a final NUL */
  FOVEA_IMAGE_ENCODED = 1, /* `data`: the bytes of an image file */
  FOVEA_IMAGE_PIXELS = 2   /* `data`: uint8 [height, width, 3], RGB, rows without padding */
} fovea_image_kind;

typedef struct fovea_image {
  int32_t kind;   /* a fovea_image_kind */
  int32_t width;  /* for FOVEA_IMAGE_PIXELS, in pixels */
  int32_t height; /* for FOVEA_IMAGE_PIXELS, in pixels */
  const void* data;
  size_t size; /* bytes of `data` */
} fovea_image;

typedef struct fovea_embed_options {
  int32_t batch_size;      /* images computed together; 0: fovea_encoder_batch_size() */
  int32_t decode_threads;  /* 0: one per CPU */
  int32_t normalize;       /* not 0: scale embeddings to length 1 */
  int32_t stop_at_failure; /* not 0: end with the batch of the first image that fails */
  uint64_t decode_memory;  /* bytes that images being decoded may take together; 0: half of the
                            * memory, at most what the largest image needs */
  int64_t max_pixels;      /* larger images fail; 0: Pillow's limit, 178,956,970 */
} fovea_embed_options;

/* A run over a list of images or texts in background threads. */
typedef struct fovea_embedding fovea_embedding;

/* Starts to embed `count` images into `rows`, float [count, dimension]; the row of an image that
 * fails, or is not reached, is all NaN. `images` is copied; the memory that its entries refer to,
 * and `rows`, must stay valid until the run is freed. */
FOVEA_API fovea_status fovea_embed_start(fovea_encoder* encoder, const fovea_image* images,
                                         size_t count, const fovea_embed_options* options,
                                         float* rows, fovea_embedding** run);

/* How a text is cleaned before it is tokenized; see fovea::TextClean. */
typedef enum fovea_text_clean {
  FOVEA_TEXT_CLEAN_AUTO = 0, /* as the model was trained */
  FOVEA_TEXT_CLEAN_LOWER = 1,
  FOVEA_TEXT_CLEAN_CANONICALIZE = 2,
  FOVEA_TEXT_CLEAN_NONE = 3
} fovea_text_clean;

typedef struct fovea_text {
  const char* data; /* UTF-8 without a final NUL */
  size_t size;      /* bytes of `data` */
} fovea_text;

typedef struct fovea_embed_texts_options {
  int32_t clean;     /* a fovea_text_clean */
  int32_t normalize; /* not 0: scale embeddings to length 1 */
} fovea_embed_texts_options;

/* Starts to embed `count` texts into `rows`, float [count, dimension], which is written when the
 * run ends without a failure. The texts are copied; `rows` must stay valid until the run is freed.
 * The run fails as fovea_encoder_load_texts does, for a text that is not UTF-8, with "interrupted"
 * when it was stopped, and when the device fails. */
FOVEA_API fovea_status fovea_embed_texts_start(fovea_encoder* encoder, const fovea_text* texts,
                                               size_t count,
                                               const fovea_embed_texts_options* options,
                                               float* rows, fovea_embedding** run);
/* The same, synchronously: returns when `rows` is written, and fails as the run does.
 * Notes go to the handler of fovea_set_note_handler. */
FOVEA_API fovea_status fovea_embed_texts(fovea_encoder* encoder, const fovea_text* texts,
                                         size_t count, const fovea_embed_texts_options* options,
                                         float* rows);

/* Writes the unit vectors of labels into `rows`, float [label_count, dimension]:
 * fovea_encoder_logit_scale converts their cosines to images into logits and probabilities. Each of
 * `templates` has one {}, which stands for the label, such as "This is a photo of {}."; with
 * several, a label's vector is the normalised mean of its sentences' unit vectors. `clean`: a
 * fovea_text_clean. Fails when there is no label or no template, and as fovea_embed_texts. */
FOVEA_API fovea_status fovea_embed_labels(fovea_encoder* encoder, const fovea_text* labels,
                                          size_t label_count, const fovea_text* templates,
                                          size_t template_count, int32_t clean, float* rows);
/* The same in background threads: a run like that of fovea_embed_texts_start, which fails as
 * fovea_embed_labels does. The texts that it counts are the sentences, labels times templates. */
FOVEA_API fovea_status fovea_embed_labels_start(fovea_encoder* encoder, const fovea_text* labels,
                                                size_t label_count, const fovea_text* templates,
                                                size_t template_count, int32_t clean, float* rows,
                                                fovea_embedding** run);

/* Waits until the run has ended, for `milliseconds` at most; `ended` becomes 0 or 1. Fails with the
 * reason when the run ended early; failed images alone do not end it. */
FOVEA_API fovea_status fovea_embed_wait(fovea_embedding* run, int32_t milliseconds, int32_t* ended);
/* Images or texts done so far, failed ones included. */
FOVEA_API size_t fovea_embed_done(const fovea_embedding* run);
/* Asks the run to end after the batch being computed. */
FOVEA_API void fovea_embed_stop(fovea_embedding* run);
/* The number of images that failed. To be called once the run has ended. */
FOVEA_API size_t fovea_embed_failures(const fovea_embedding* run);
/* The failure number `which`, in the order of the images: the index of the image and the reason,
 * which is valid as long as the run. Fails when there is no such failure. */
FOVEA_API fovea_status fovea_embed_failure(const fovea_embedding* run, size_t which, size_t* index,
                                           const char** reason);
/* Notes for the user, for example that the memory of the device ran short; "" when there are none.
 * To be called once the run has ended; valid as long as the run. */
FOVEA_API const char* fovea_embed_notes(const fovea_embedding* run);
/* Stops the run if it has not ended, waits for its end and frees it. NULL is ignored. */
FOVEA_API void fovea_embed_free(fovea_embedding* run);

#ifdef __cplusplus
}
#endif

#endif
