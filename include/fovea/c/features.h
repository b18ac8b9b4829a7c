/* Features of images for other languages: hidden states of a model's vision tower, in the memory of
 * the device that computed them; and heat maps.
 *
 * As for fovea/c/encoder.h: functions may be called from any thread, and those that return
 * fovea_status write their results only when they return FOVEA_OK. */
#ifndef FOVEA_C_FEATURES_H
#define FOVEA_C_FEATURES_H

#include <stddef.h>
#include <stdint.h>

#include "fovea/c/encoder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Patches of an image, which are the tokens of its features; for a NaFlex model, the maximum. */
FOVEA_API int64_t fovea_encoder_patches(const fovea_encoder* encoder);

typedef enum fovea_feature_type {
  FOVEA_FEATURES_F32 = 0,
  FOVEA_FEATURES_F16 = 1
} fovea_feature_type;

typedef struct fovea_features_options {
  int32_t type;           /* a fovea_feature_type */
  int32_t batch_size;     /* images computed together; 0: fovea_encoder_batch_size() */
  int32_t decode_threads; /* 0: one per CPU */
  int32_t reserved;       /* 0 */
  uint64_t decode_memory; /* as in fovea_embed_options */
  int64_t max_pixels;     /* as in fovea_embed_options */
} fovea_features_options;

/* Features of a list of images. Its memory belongs to the device, and may outlive the encoder. */
typedef struct fovea_features fovea_features;

/* Starts to compute features of `count` images; the run is polled and freed like those of
 * fovea_embed_start. `layer`: "last" (transformers' last_hidden_state), "penultimate"
 * (hidden_states[-2]), "pooled" (pooler_output), or an index of hidden_states, such as "-3".
 * `images` is copied; the memory that its entries refer to must stay valid until the run is freed.
 * `features` becomes an object that has its content once the run has ended; the two are freed in
 * any order. The first image that cannot be read ends the run, whose one failure it is; there are
 * no features then. The run fails when the model does not give such features, or the device fails
 * or lacks memory. */
FOVEA_API fovea_status fovea_features_start(fovea_encoder* encoder, const fovea_image* images,
                                            size_t count, const char* layer,
                                            const fovea_features_options* options,
                                            fovea_features** features, fovea_embedding** run);

/* The shape: 3 dimensions, [images, tokens, hidden], or 2 for pooled features, [images, hidden];
 * `shape` has room for 3. Until the run has ended, and when it has failed, there are no features:
 * these functions behave as for NULL, and those that return fovea_status fail. */
FOVEA_API int32_t fovea_features_shape(const fovea_features* features, int64_t* shape);
/* A fovea_feature_type, and the number of the CUDA device that has the numbers, or -1: the host. */
FOVEA_API int32_t fovea_features_type(const fovea_features* features);
FOVEA_API int32_t fovea_features_cuda_device(const fovea_features* features);
/* The numbers, row-major, in the memory of that device, valid as long as `features`. They are
 * complete, so readers need not synchronise. */
FOVEA_API void* fovea_features_data(const fovea_features* features);
/* Size of the numbers in bytes. */
FOVEA_API size_t fovea_features_bytes(const fovea_features* features);
/* Copies all bytes to the host. Fails when `size` is not their number, or when the device fails. */
FOVEA_API fovea_status fovea_features_copy(const fovea_features* features, void* host, size_t size);
/* `managed` becomes a DLManagedTensor of DLPack (before its version 1.0), whose deleter the
 * consumer calls once, from any thread. It shares the memory, which is freed with the last
 * owner. */
FOVEA_API fovea_status fovea_features_dlpack(const fovea_features* features, void** managed);
/* Frees the object; NULL is ignored. */
FOVEA_API void fovea_features_free(fovea_features* features);

/* Computes the heat map of a text over an image: `values` becomes float [rows, columns], a cosine
 * for each patch, the top row first; see fovea::Encoder::heat. `capacity`: numbers that `values`
 * has room for, at least fovea_encoder_patches(). `clean`: a fovea_text_clean. Fails when the image
 * cannot be read, when the model has no pooling head or no text tower, and when the device fails.
 */
FOVEA_API fovea_status fovea_heat(fovea_encoder* encoder, const fovea_text* text,
                                  const fovea_image* image, int32_t clean, float* values,
                                  size_t capacity, int64_t* rows, int64_t* columns);

#ifdef __cplusplus
}
#endif

#endif
