/* Search in the output of `fovea embed`, for other languages: the photos that are nearest to
 * vectors, which are of photos (fovea_embed_start) or of texts (fovea_embed_texts).
 *
 * Functions may be called from any thread; searches in one collection take turns. Those that return
 * fovea_status write their results only when they return FOVEA_OK. Names are those of the index
 * files: UTF-8, other bytes as \xHH, a backslash doubled; paths are bytes. */
#ifndef FOVEA_C_SEARCH_H
#define FOVEA_C_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include "fovea/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_collection fovea_collection;

/* `outputs`: `count` paths, at least one, each the folder or the NAME.npy that `fovea embed` wrote;
 * they are searched as one, and rows are counted through all of them. `root`: where relative names
 * of photos start; NULL or "": where `fovea embed` ran. `threads`: 0 for one per CPU. See
 * fovea::Collection. Fails when an output is missing, damaged or incomplete, or of another
 * model. */
FOVEA_API fovea_status fovea_collection_open(const char* const* outputs, size_t count,
                                             const char* root, int32_t threads,
                                             fovea_collection** collection);
/* The same, with the device on which fovea_collection_nearest compares: "cpu", "cuda", "cuda:N",
 * "emu" or "auto"; see fovea::CollectionOptions::device. Fails also when that device is
 * unavailable. */
FOVEA_API fovea_status fovea_collection_open_on(const char* const* outputs, size_t count,
                                                const char* root, int32_t threads,
                                                const char* device, fovea_collection** collection);
/* Frees a collection that no function uses any more. NULL is ignored. */
FOVEA_API void fovea_collection_free(fovea_collection* collection);

FOVEA_API int64_t fovea_collection_rows(const fovea_collection* collection);
/* Dimension of the embeddings. */
FOVEA_API int64_t fovea_collection_dimension(const fovea_collection* collection);
/* The model that made it, as fovea_encoder_load takes it; "" when no manifest.json names it. Valid
 * as long as the collection. */
FOVEA_API const char* fovea_collection_model(const fovea_collection* collection);
/* 0 when an output is unfinished, so that its last rows are absent. */
FOVEA_API int32_t fovea_collection_is_finished(const fovea_collection* collection);

/* The name of the photo of `row`, and the path where it should be; a member of an archive has the
 * path "x.tar#key.jpg". Both are valid until the same thread calls this again. */
FOVEA_API fovea_status fovea_collection_source(const fovea_collection* collection, int64_t row,
                                               const char** source, const char** path);

/* The index entry of a photo, and the current state of its file. */
typedef struct fovea_photo {
  const char* source;   /* as from fovea_collection_source */
  const char* path;     /* as from fovea_collection_source */
  const char* captured; /* "2024-05-01 12:30:00" by the camera's clock, or "" */
  const char* error;    /* why its file cannot be read, or "" */
  int64_t output;       /* index of its output among `outputs` */
  int64_t bytes;        /* of the file; -1: unknown, as for members of archives */
  int64_t modified;     /* seconds since 1970, UTC, when has_modified; for members the archive's */
  int32_t has_modified;
  int32_t width; /* in pixels when it was embedded; 0: unknown */
  int32_t height;
  int32_t is_member;   /* not 0: it is in an archive */
  int32_t has_changed; /* not 0: the file may not be what was embedded */
} fovea_photo;

/* Describes the photo of a row. The texts are valid until the same thread calls this again. */
FOVEA_API fovea_status fovea_collection_photo(const fovea_collection* collection, int64_t row,
                                              fovea_photo* photo);
/* The first row of a photo, given by its name in the index or by the path of its file; -1 when
 * there is none. */
FOVEA_API fovea_status fovea_collection_find(const fovea_collection* collection, const char* name,
                                             int64_t* row);
/* Reads the embeddings of `count` rows from `first` on into `out`, float [count, dimension]. */
FOVEA_API fovea_status fovea_collection_embeddings(const fovea_collection* collection,
                                                   int64_t first, int64_t count, float* out);

/* Called with the number of rows compared while a search runs, from any of its threads but never
 * from two at once, and several times per second while it waits for its turn. Returns 0 to
 * continue; anything else ends the search, which then fails with "interrupted". */
typedef int32_t (*fovea_search_handler)(int64_t done, int64_t total, void* context);

/* The `k` nearest rows of each query, nearest first, rows of equal score in row order. `queries`:
 * float [count, dimension], of any length but 0. `left_out`: per query a row that it must not find,
 * such as its own, or -1; NULL: none. `handler` may be NULL. `rows` and `scores` get [count, k]:
 * rows and their cosines in [-1, 1]; -1 and NaN where there are not as many rows. Fails when a
 * query or a row holds NaN or infinity, or a query is all zeros; and when the rows do not fit into
 * the memory of an explicitly requested GPU. */
FOVEA_API fovea_status fovea_collection_nearest(const fovea_collection* collection,
                                                const float* queries, size_t count, int32_t k,
                                                const int64_t* left_out,
                                                fovea_search_handler handler, void* context,
                                                int64_t* rows, double* scores);

/* Combines queries for fovea_collection_nearest:
 * `out`, float [count, dimension], is each query divided by its length, plus each term divided by
 * its length and multiplied by its weight, which is negative for what is to be avoided. `queries`:
 * float [count, dimension]; `terms`: float [term_count, dimension]; `weights`: [term_count]. `out`
 * may be `queries`. See fovea::combine_queries. Fails when a query or a term holds NaN or infinity
 * or is all zeros, when a weight is not finite, and when
 * a query and the terms add up to zeros or to more than a float holds. */
FOVEA_API fovea_status fovea_queries_combine(const float* queries, size_t count, int64_t dimension,
                                             const float* terms, const double* weights,
                                             size_t term_count, float* out);

#ifdef __cplusplus
}
#endif

#endif
