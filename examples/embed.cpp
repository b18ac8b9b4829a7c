// Prints the cosine similarity of photos to the first one: embed MODEL PHOTO...
#include <cstdio>
#include <exception>
#include <numeric>

#include "fovea/encoder.hpp"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL PHOTO...\n", argv[0]);
    return 2;
  }
  fovea::Encoder encoder(argv[1]);
  const std::vector<float> first = encoder.embed_file(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::vector<float> other = encoder.embed_file(argv[i]);
    const float cosine = std::inner_product(first.begin(), first.end(), other.begin(), 0.0F);
    std::printf("%.4f %s\n", cosine, argv[i]);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
