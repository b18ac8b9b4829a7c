// Pixels to embeddings without the job around them, for tests/model/test_parity.py:
//   encode_tool MODEL PIXELS.npy PRECISION OUT.npy [THREADS [DEVICE]]
// PRECISION "reference" runs the float64 operators.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "backends.hpp"
#include "core/error.hpp"
#include "image/resize.hpp"
#include "io/npy.hpp"
#include "model/checkpoint.hpp"
#include "model/encoder.hpp"
#include "ops/reference/reference_backend.hpp"

namespace {

using namespace fovea;

int run(int argc, char** argv) {
  if (argc < 5) {
    fail("usage: encode_tool MODEL PIXELS.npy PRECISION OUT.npy [THREADS [DEVICE]]");
  }
  const std::string precision = argv[3];
  EncoderOptions options;
  options.threads = argc > 5 ? std::atoi(argv[5]) : 0;
  options.device = argc > 6 ? argv[6] : "cpu";
  auto backend = precision == "reference" ? ops::reference::make_backend() : nullptr;
  if (!backend) {
    options.precision = parse_precision(precision);
    backend = make_backend(options);
  }
  const io::NpyFile file(argv[2]);
  const model::Checkpoint checkpoint(argv[1]);
  const model::VisionConfig& vision = checkpoint.config().vision;
  const std::int64_t images = file.shape()[0];
  const auto side = static_cast<std::size_t>(vision.image_size);
  if (file.shape() != Shape{images, vision.image_size, vision.image_size, 3}) {
    fail("pixels are {}", file.shape().to_string());
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(file.shape().elements()));
  file.read(0, std::span(pixels));
  const auto patch_bytes = static_cast<std::size_t>(vision.patches() * vision.patch_elements());
  std::vector<std::uint8_t> patches(static_cast<std::size_t>(images) * patch_bytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(images); ++i) {
    image::patchify({pixels.data() + i * side * side * 3, side * side * 3}, static_cast<int>(side),
                    static_cast<int>(side), static_cast<int>(vision.patch),
                    std::span(patches).subspan(i * patch_bytes, patch_bytes));
  }
  model::Encoder encoder(checkpoint, std::move(backend));
  std::fprintf(stderr, "%s\n", encoder.description().c_str());
  std::vector<float> embeddings(static_cast<std::size_t>(images * vision.hidden));
  encoder.encode(patches, images, embeddings);
  std::ofstream out(argv[4], std::ios::binary);
  const std::string header = io::npy_header(DType::kF32, Shape{images, vision.hidden});
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(reinterpret_cast<const char*>(embeddings.data()),
            static_cast<std::streamsize>(embeddings.size() * sizeof(float)));
  out.close();
  if (!out) {
    fail("cannot write {}", argv[4]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
