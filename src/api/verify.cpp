// Verifies on photos: SIMD pixels against the plain reference, precisions against fp32.
#include "fovea/verify.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "api/precision.hpp"
#include "backends.hpp"
#include "core/error.hpp"
#include "core/length.hpp"
#include "core/quantile.hpp"
#include "hub/resolve.hpp"
#include "image/decode.hpp"
#include "image/reference_resize.hpp"
#include "image/resize.hpp"
#include "io/text.hpp"
#include "pipeline/read_file.hpp"
#include "pipeline/source.hpp"

namespace fovea {
namespace {

constexpr std::size_t kNeighbours = 10;  // k of recall@k
constexpr std::int64_t kBatch = 32;

// The preprocessed photos, and the results of the pixel check.
struct Photos {
  std::vector<std::string> names;
  std::vector<std::uint8_t> patches;  // all photos, concatenated
  std::vector<std::size_t> offsets;   // start of each photo in `patches`
  std::vector<PatchGrid> grids;
  std::int64_t failed_inputs = 0;
  std::string last_failure;  // reason of the last unreadable input, for the message
  std::int64_t wrong_pixels = 0;
};

// Embeddings of all photos, [photos, dimension], each of length 1.
struct Embeddings {
  std::vector<float> values;
  std::size_t dimension = 0;

  [[nodiscard]] std::size_t count() const { return values.size() / dimension; }
  [[nodiscard]] std::span<const float> row(std::size_t photo) const {
    return std::span(values).subspan(photo * dimension, dimension);
  }
};

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add_photo(std::span<const std::byte> bytes, const image::DecodeOptions& options,
               const model::ModelConfig& config, Photos& photos) {
  const Preprocessing& preprocessing = config.preprocessing;
  const auto patch = static_cast<int>(config.vision.patch);
  std::vector<std::uint8_t> pixels(
      static_cast<std::size_t>(image::max_target_pixels(preprocessing)) * image::kChannels);
  const auto [height, width] = image::decode_resized(bytes, preprocessing, options, pixels).pixels;
  pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                image::kChannels);

  std::vector<std::uint8_t> expected(pixels.size());
  image::reference_resize(image::decode(bytes, options), height, width, preprocessing.resample,
                          expected);
  photos.wrong_pixels += pixels == expected ? 0 : 1;

  const PatchGrid grid{.height = height / patch, .width = width / patch};
  const auto patch_bytes =
      static_cast<std::size_t>(grid.patches() * config.vision.patch_elements());
  photos.offsets.push_back(photos.patches.size());
  photos.grids.push_back(grid);
  photos.patches.resize(photos.patches.size() + patch_bytes);
  image::patchify(pixels, height, width, patch, std::span(photos.patches).last(patch_bytes));
}

Photos read_photos(const VerifyOptions& options, const model::ModelConfig& config) {
  Photos photos;
  const image::DecodeOptions decoding{.max_pixels = image::checked_max_pixels(options.max_pixels)};
  InputOptions inputs;
  inputs.inputs = options.inputs;
  const std::unique_ptr<pipeline::Source> source =
      pipeline::make_source(inputs, config.preprocessing);
  pipeline::Item item;
  while (source->next(item)) {
    if (options.limit > 0 && std::ssize(photos.names) == options.limit) {
      break;
    }
    source->load(item);
    try {
      if (item.kind == pipeline::Item::Kind::kFile) {
        (void)pipeline::read_file(item.name, item.bytes);
      } else if (item.kind == pipeline::Item::Kind::kFailed) {
        fail("{}", item.error);
      } else if (item.kind != pipeline::Item::Kind::kBytes) {
        fail("contains pixels, not an encoded image");
      }
      add_photo(item.bytes, decoding, config, photos);
    } catch (const Error& error) {
      ++photos.failed_inputs;  // only counted here; `fovea embed` reports every reason
      photos.last_failure = fmt::format("; the last, {}: {}", io::escape(item.name), error.what());
      continue;
    }
    photos.names.push_back(io::escape(item.name));
    if (options.on_progress) {
      options.on_progress("reading", photos.names.size(),
                          static_cast<std::uint64_t>(options.limit));
    }
  }
  return photos;
}

Embeddings embed_all(model::Encoder& encoder, const Photos& photos, const VerifyOptions& options) {
  const std::string step(to_string(encoder.backend().precision()));
  std::atomic<std::uint64_t> done = 0;
  std::function<void(std::int64_t)> on_computed;
  if (options.on_progress) {
    on_computed = [&](std::int64_t images) {
      options.on_progress(step, done += static_cast<std::uint64_t>(images), photos.names.size());
    };
  }
  Embeddings embeddings;
  embeddings.dimension = static_cast<std::size_t>(encoder.config().vision.hidden);
  embeddings.values.resize(photos.names.size() * embeddings.dimension);
  for (std::size_t first = 0; first < photos.names.size(); first += kBatch) {
    const std::size_t images =
        std::min(static_cast<std::size_t>(kBatch), photos.names.size() - first);
    const std::size_t end = first + images < photos.offsets.size() ? photos.offsets[first + images]
                                                                   : photos.patches.size();
    encoder.encode(
        std::span(photos.patches).subspan(photos.offsets[first], end - photos.offsets[first]),
        std::span(photos.grids).subspan(first, images),
        std::span(embeddings.values)
            .subspan(first * embeddings.dimension, images * embeddings.dimension),
        {}, on_computed);
  }
  for (std::size_t photo = 0; photo < embeddings.count(); ++photo) {
    const std::span row =
        std::span(embeddings.values).subspan(photo * embeddings.dimension, embeddings.dimension);
    const double length = std::sqrt(squared_length(row));
    if (!(length > 0) || !std::isfinite(length)) {
      fail("{}: its embedding has length {} in {}; the weights of the model are damaged",
           photos.names[photo], length, to_string(encoder.backend().precision()));
    }
    divide(row, length);
  }
  return embeddings;
}

// Returns the photos most similar to `photo`, excluding itself; ties are in input order.
std::set<std::size_t> neighbours(const Embeddings& embeddings, std::size_t photo) {
  std::vector<std::pair<double, std::size_t>> others;
  for (std::size_t other = 0; other < embeddings.count(); ++other) {
    if (other != photo) {
      others.emplace_back(-dot(embeddings.row(photo), embeddings.row(other)), other);
    }
  }
  const std::size_t count = std::min(kNeighbours, others.size());
  std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count),
                    others.end());
  std::set<std::size_t> nearest;
  for (std::size_t rank = 0; rank < count; ++rank) {
    nearest.insert(others[rank].second);
  }
  return nearest;
}

PrecisionCheck compare(Precision precision, const Embeddings& exact, const Embeddings& compared,
                       const Photos& photos, const VerifyOptions& options) {
  PrecisionCheck check;
  check.precision = precision;
  check.cosine_min = 2.0;  // above every cosine
  std::vector<double> cosines;
  double recalls = 0;
  for (std::size_t photo = 0; photo < exact.count(); ++photo) {
    const double cosine = dot(exact.row(photo), compared.row(photo));
    cosines.push_back(cosine);
    if (!std::isnan(check.cosine_min) && !(cosine >= check.cosine_min)) {  // NaN is the worst
      check.cosine_min = cosine;
      check.worst = photos.names[photo];
    }
    const std::set<std::size_t> exact_neighbours = neighbours(exact, photo);
    const std::set<std::size_t> compared_neighbours = neighbours(compared, photo);
    const auto common = std::ranges::count_if(
        exact_neighbours, [&](std::size_t other) { return compared_neighbours.contains(other); });
    recalls += static_cast<double>(common) / static_cast<double>(exact_neighbours.size());
  }
  const auto count = static_cast<double>(exact.count());
  check.cosine_mean = std::accumulate(cosines.begin(), cosines.end(), 0.0) / count;
  check.cosine_percentile_1 = quantile(cosines, 0.01);
  check.recall = recalls / count;
  const bool is_8bit = info_of(precision).calibrated;
  const double min_cosine = is_8bit ? options.min_cosine_8bit : options.min_cosine;
  const double min_mean_cosine = is_8bit ? options.min_mean_cosine_8bit : options.min_mean_cosine;
  check.passed = check.cosine_mean >= min_mean_cosine && check.cosine_min >= min_cosine &&
                 check.recall >= options.min_recall;
  return check;
}

}  // namespace

VerifyReport verify(const VerifyOptions& options) {
  const model::Checkpoint checkpoint(hub::resolve_model(options.model), {}, model::Tower::kVision,
                                     options.calibration);
  if (options.device != "auto") {  // fail early if the device is not available
    static_cast<void>(make_backend({.device = options.device, .threads = options.threads}));
  }
  const Photos photos = read_photos(options, checkpoint.config());
  if (photos.names.size() < 2) {
    fail("verify needs at least 2 readable photos; the inputs hold {} and {} unreadable{}",
         photos.names.size(), photos.failed_inputs, photos.last_failure);
  }
  VerifyReport report;
  report.photos = std::ssize(photos.names);
  report.failed_inputs = photos.failed_inputs;
  report.photos_with_wrong_pixels = photos.wrong_pixels;
  report.passed = photos.wrong_pixels == 0;

  std::string reason;
  // The other precisions are compared with fp32 on the CPU.
  EncoderOptions encoder_options{
      .device = "cpu", .precision = Precision::kFp32, .threads = options.threads};
  std::unique_ptr<model::Encoder> encoder = try_encoder(checkpoint, encoder_options, false, reason);
  report.device = encoder->description();
  if (options.on_device) {
    options.on_device(report.device);
  }
  const Embeddings exact = embed_all(*encoder, photos, options);
  encoder.reset();

  encoder_options.device = options.device;
  for (const Precision precision : precisions_or_all({}, options.device)) {
    if (precision == Precision::kFp32) {
      continue;
    }
    encoder_options.precision = precision;
    encoder = try_encoder(checkpoint, encoder_options, true, reason);
    if (!encoder) {
      report.refused.push_back(reason);
      continue;
    }
    report.device = encoder->description();
    if (options.on_device) {
      options.on_device(report.device);
    }
    report.precisions.push_back(
        compare(precision, exact, embed_all(*encoder, photos, options), photos, options));
    report.passed = report.passed && report.precisions.back().passed;
    encoder.reset();
  }
  return report;
}

}  // namespace fovea
