// Encoder: a SigLIP or SigLIP 2 model, ready to turn images and texts into embeddings.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/images.hpp"
#include "fovea/precision.hpp"
#include "fovea/preprocessing.hpp"
#include "fovea/text.hpp"

namespace [[gnu::visibility("default")]] fovea {

/// The two towers of a model.
enum class Tower : std::uint8_t { kImages, kTexts };

struct EncoderOptions {
  /// "auto", "cpu", "cuda", "cuda:N" or "emu". `auto` takes a GPU when one is usable, else the CPU;
  /// Encoder::device() says which. "emu", and "emu:ARCH" of docs/emulator.md, run the GPU kernels
  /// in an emulator on the CPU: far slower than either, but errors in kernels are reported.
  std::string device = "auto";
  /// kAuto: bf16 when the device has instructions for it, else fp32. Any other precision throws on
  /// a device without instructions for it. A calibrated precision (see kPrecisions) requires one
  /// call of calibrate() per model.
  Precision precision = Precision::kAuto;
  /// Compute threads; 0: one per CPU that this process may use.
  int threads = 0;
  /// The folder with the model's calibrations. Empty: the environment variable FOVEA_CALIBRATION,
  /// else the places where calibrate() writes them.
  std::filesystem::path calibration = {};
  /// The tower that the constructor loads; the other one is loaded when it is first needed.
  Tower first = Tower::kImages;
};

/// How a model turns the cosine of an image and a text into a logit and a probability. SigLIP's
/// probabilities are sigmoids, one for each pair, so they do not add up to 1 over texts.
struct LogitScale {
  double factor = 1;  ///< exp(logit_scale)
  double bias = 0;    ///< logit_bias

  /// factor * cosine + bias.
  [[nodiscard]] double logit(double cosine) const { return factor * cosine + bias; }
  /// 1 / (1 + exp(-logit)).
  [[nodiscard]] double probability(double cosine) const {
    return 1 / (1 + std::exp(-logit(cosine)));
  }
};

struct EmbedTextsOptions {
  TextClean clean = TextClean::kAuto;
  bool normalize = true;  ///< scale every embedding to length 1
  /// When set to true, the call throws Error within two seconds.
  const std::atomic<bool>* stop = nullptr;
  /// Called from any thread, never from two at once, with the number of texts done.
  std::function<void(std::size_t done)> on_progress;
  /// Called with notes for the user, for example that the memory of the device ran short.
  std::function<void(std::string_view)> on_note;
};

struct LabelOptions;     // fovea/label.hpp
struct LabelledImage;    // fovea/label.hpp
struct JobReport;        // fovea/job.hpp
struct FeaturesOptions;  // fovea/features.hpp
class Features;          // fovea/features.hpp
struct HeatMap;          // fovea/heat.hpp

/// A loaded model, which embeds any number of images and texts. Methods are thread-safe; concurrent
/// calls run one after the other.
class Encoder {
 public:
  /// `model`: a folder in Hugging Face layout (config.json, preprocessor_config.json,
  /// model.safetensors or its sharded index), or a hub name such as
  /// "google/siglip2-base-patch16-224" that is already in the local Hugging Face cache.
  /// Throws fovea::Error when the model, the device or the precision is unavailable.
  explicit Encoder(const std::string& model, const EncoderOptions& options = {});
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  /// Dimension of the embeddings.
  [[nodiscard]] std::int64_t dimension() const;
  /// Patches of an image, which are the tokens of its features; for a NaFlex model, the maximum.
  [[nodiscard]] std::int64_t patches() const;
  [[nodiscard]] const Preprocessing& preprocessing() const;
  /// A description of the device for people: "cpu (avx512_bf16), bf16, 8 threads".
  [[nodiscard]] std::string device() const;
  [[nodiscard]] Precision precision() const;
  /// Loads the text tower, which otherwise the first call of embed_texts or logit_scale does.
  /// Throws fovea::Error when the model has none, or no tokenizer.
  void load_texts();
  /// Throws fovea::Error as load_texts() does.
  [[nodiscard]] LogitScale logit_scale();

  /// Embeds texts: UTF-8, of any length, of which the model reads the first 64 tokens or so.
  /// Returns float [texts, dimension()]; cosines compare these rows with those of images. The row
  /// of a text does not depend, to the last bit, on the other texts. Throws fovea::Error as
  /// load_texts() does, for text that is not UTF-8, and when the device fails.
  [[nodiscard]] std::vector<float> embed_texts(std::span<const std::string> texts,
                                               const EmbedTextsOptions& options = {});

  /// The unit vectors of labels: float [labels, dimension()]. Each of `templates` has one {},
  /// which stands for the label; with several, a label's vector is the normalised mean of its
  /// sentences' unit vectors. It has length 1 whatever `options` say. Throws fovea::Error when
  /// there is no label or a template has not exactly one {}, and as embed_texts.
  [[nodiscard]] std::vector<float> embed_labels(std::span<const std::string> labels,
                                                std::span<const std::string> templates,
                                                const EmbedTextsOptions& options = {});

  /// Compares every input with labels, and reports each in input order, from one thread. An input
  /// that fails is reported to JobControl::on_failure and left out. Throws fovea::Error as
  /// embed_labels and embed_job.
  JobReport label(const LabelOptions& options,
                  const std::function<void(const LabelledImage&)>& on_image);

  /// Recommended batch size, in images.
  [[nodiscard]] std::int64_t preferred_batch() const;

  /// Embeds one encoded image (the bytes of a file in one of the formats of docs/images.md).
  /// Returns [dimension()] floats, scaled to length 1 when `normalize`. An image of more pixels
  /// than `max_pixels` is refused; see InputOptions. Throws fovea::Error when the bytes are not a
  /// readable image, or when the device fails.
  [[nodiscard]] std::vector<float> embed(std::span<const std::byte> image, bool normalize = true,
                                         std::int64_t max_pixels = 0);

  /// Embeds one image file; otherwise as embed(). Errors name the path.
  [[nodiscard]] std::vector<float> embed_file(const std::filesystem::path& path,
                                              bool normalize = true, std::int64_t max_pixels = 0);

  /// Embeds resized pixels: `pixels` is uint8 [images, height, width, 3], row-major RGB.
  /// Returns float [images, dimension()]. Throws fovea::Error when `pixels` is not a whole number
  /// of images, when an embedding is not finite (or zero, to be normalised), or when the device
  /// fails.
  [[nodiscard]] std::vector<float> embed_pixels(std::span<const std::uint8_t> pixels,
                                                bool normalize = true);

  /// The same for images of `height` x `width` pixels: the size in preprocessing() or, for a NaFlex
  /// model, any size of whole patches, at most max_patches of them. Throws fovea::Error for other
  /// sizes.
  [[nodiscard]] std::vector<float> embed_pixels(std::span<const std::uint8_t> pixels, int height,
                                                int width, bool normalize = true);

  /// Embeds many images: decoding on all cores, resizing and computing overlap, and memory does not
  /// grow with the number of images. `rows`: float [images, dimension()]; row i belongs to image i
  /// and is all NaN when that failed. The values are those of embed_job for the same inputs,
  /// precision and batch size. Returns the images that failed, in order. When `stop` or
  /// `stop_at_failure` ended the call early, the rows of images that were not reached are all NaN,
  /// too. Throws fovea::Error when `rows` has another size or the device fails.
  [[nodiscard]] std::vector<ImageFailure> embed_images(std::span<const ImageInput> images,
                                                       std::span<float> rows,
                                                       const EmbedImagesOptions& options = {});

  /// Computes features of images (fovea/features.hpp), which stay in the memory of the device.
  /// Apart from the result, memory use does not grow with the number of images. `failure` gets the
  /// first image that cannot be read, which ends the call; the result is then empty. An image's
  /// features do not depend, to the last bit, on the other images. Throws fovea::Error when the
  /// model does not give these features, when they do not fit into the memory of the device, or
  /// when the device fails; Interrupted, an Error, when `stop` was set.
  [[nodiscard]] Features features(std::span<const ImageInput> images,
                                  const FeaturesOptions& options,
                                  std::optional<ImageFailure>& failure);
  /// The same; throws fovea::Error for an image that cannot be read.
  [[nodiscard]] Features features(std::span<const ImageInput> images,
                                  const FeaturesOptions& options);

  /// Computes a heat map of an image for each of `vectors`, float [n, dimension()], such as those
  /// of texts. A map holds, for each patch, the cosine of the vector and the embedding that the
  /// image would have if the pooling head attended to that patch alone (docs/architecture.md).
  /// Throws fovea::Error when `vectors` are not whole vectors or one is zero or not finite, when
  /// the image cannot be read, when the model has no pooling head, or when the device fails.
  /// `max_pixels`: a larger image is refused; see InputOptions.
  [[nodiscard]] std::vector<HeatMap> heat(std::span<const float> vectors, const ImageInput& image,
                                          std::int64_t max_pixels = 0);
  /// The same for one text. Also throws fovea::Error as embed_texts does.
  [[nodiscard]] HeatMap heat(const std::string& text, const ImageInput& image,
                             TextClean clean = TextClean::kAuto, std::int64_t max_pixels = 0);

 private:
  struct [[gnu::visibility("hidden")]] Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fovea
