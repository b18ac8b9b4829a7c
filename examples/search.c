/* Prints the photos that fit words best: search OUT WORDS
 * OUT is what `fovea embed -o OUT` wrote.
 *
 *   cc examples/search.c $(pkg-config --cflags --libs fovea) -lm -o search */
#include "fovea/c/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/c/encoder.h"

enum { kPhotos = 10 };

static int failed(void) {
  fprintf(stderr, "%s\n", fovea_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s OUT WORDS\n", argv[0]);
    return 2;
  }
  const char* const outputs[] = {argv[1]};
  fovea_collection* collection = NULL;
  if (fovea_collection_open(outputs, 1, NULL, 0, &collection) != FOVEA_OK) {
    return failed();
  }
  /* The half of the model that reads texts is enough. */
  fovea_encoder* encoder = NULL;
  double factor = 0;
  double bias = 0;
  if (fovea_encoder_load_tower(fovea_collection_model(collection), "cpu", "fp32", 0,
                               FOVEA_TOWER_TEXTS, &encoder) != FOVEA_OK ||
      fovea_encoder_logit_scale(encoder, &factor, &bias) != FOVEA_OK) {
    return failed();
  }
  if (fovea_encoder_dimension(encoder) != fovea_collection_dimension(collection)) {
    fprintf(stderr, "%s: the model makes other vectors than the one that made this\n", argv[1]);
    return 1;
  }
  float* const vector = malloc((size_t)fovea_encoder_dimension(encoder) * sizeof(float));
  if (vector == NULL) {
    return 1;
  }
  const fovea_text text = {argv[2], strlen(argv[2])};
  const fovea_embed_texts_options options = {FOVEA_TEXT_CLEAN_AUTO, 1};
  int64_t rows[kPhotos];
  double scores[kPhotos];
  if (fovea_embed_texts(encoder, &text, 1, &options, vector) != FOVEA_OK ||
      fovea_collection_nearest(collection, vector, 1, kPhotos, NULL, NULL, NULL, rows, scores) !=
          FOVEA_OK) {
    return failed();
  }
  for (int place = 0; place < kPhotos && rows[place] >= 0; ++place) {
    const char* source = NULL;
    const char* path = NULL;
    if (fovea_collection_source(collection, rows[place], &source, &path) != FOVEA_OK) {
      return failed();
    }
    const double probability = 1 / (1 + exp(-(factor * scores[place] + bias)));
    printf("%.4f %.6f %s\n", scores[place], probability, path);
  }
  free(vector);
  fovea_encoder_free(encoder);
  fovea_collection_free(collection);
  return 0;
}
