/* Prints the cosine similarity of photos to the first one: embed MODEL PHOTO...
 *
 *   cc examples/embed.c $(pkg-config --cflags --libs fovea) -o embed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/c/encoder.h"

static int failed(void) {
  fprintf(stderr, "%s\n", fovea_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL PHOTO...\n", argv[0]);
    return 2;
  }
  fovea_encoder* encoder = NULL;
  if (fovea_encoder_load(argv[1], "auto", "auto", 0, &encoder) != FOVEA_OK) {
    return failed();
  }
  const size_t count = (size_t)argc - 2;
  const size_t width = (size_t)fovea_encoder_dimension(encoder);
  char** const paths = argv + 2;
  float* const rows = malloc(count * width * sizeof(float));
  fovea_image* const images = calloc(count, sizeof(fovea_image));
  if (rows == NULL || images == NULL) {
    return 1;
  }
  for (size_t i = 0; i < count; ++i) {
    images[i].kind = FOVEA_IMAGE_FILE;
    images[i].data = paths[i];
    images[i].size = strlen(paths[i]);
  }
  fovea_embed_options options = {0};
  options.normalize = 1;
  fovea_embedding* run = NULL;
  if (fovea_embed_start(encoder, images, count, &options, rows, &run) != FOVEA_OK) {
    return failed();
  }
  for (int32_t ended = 0; !ended;) {
    if (fovea_embed_wait(run, 1000, &ended) != FOVEA_OK) {
      return failed();
    }
  }
  for (size_t which = 0; which < fovea_embed_failures(run); ++which) {
    size_t index = 0;
    const char* reason = "";
    if (fovea_embed_failure(run, which, &index, &reason) == FOVEA_OK) {
      fprintf(stderr, "%s: %s\n", paths[index], reason);
    }
  }
  for (size_t i = 1; i < count; ++i) {
    float cosine = 0;
    for (size_t j = 0; j < width; ++j) {
      cosine += rows[j] * rows[i * width + j];
    }
    printf("%.4f %s\n", cosine, paths[i]); /* nan when one of the two failed */
  }
  const int status = fovea_embed_failures(run) == 0 ? 0 : 3;
  fovea_embed_free(run);
  fovea_encoder_free(encoder);
  free(images);
  free(rows);
  return status;
}
