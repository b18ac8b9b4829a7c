// The SigLIP text tower: token rows from the file, the layers, and one token projected.
#include "model/text_encoder.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/convert.hpp"
#include "core/error.hpp"
#include "io/text.hpp"
#include "model/forward.hpp"
#include "model/layer_weights.hpp"

namespace fovea::model {
namespace {

/// Number of texts per batch, which bounds the memory for their residual streams.
constexpr std::int64_t kMaxTexts = 1024;

/// Stores token + position in the type of the stream, which is float64 only in the reference.
void store_sum(std::span<const float> token, std::span<const float> position, DType stream,
               std::uint8_t* to) {
  std::vector<float> sum(token.size());
  std::ranges::transform(token, position, sum.begin(), std::plus{});
  if (stream == DType::kF64) {
    std::ranges::copy(sum, reinterpret_cast<double*>(to));
  } else {
    narrow(sum.data(), std::ssize(sum), stream, to);
  }
}

}  // namespace

struct TextWeights {
  AlignedBuffer<float> position;  // [tokens, hidden]
  ops::PreparedPtr head;
  TowerWeights tower;  // the last member, since its constructor fills the others

  TextWeights(const Checkpoint& checkpoint, ops::Backend& backend)
      : tower(checkpoint, backend,
              {[&] { position = checkpoint.load(checkpoint.tower().weight_name(Part::kPosition)); },
               [&] {
                 const LayerParameters norm = load_parameters(checkpoint, Part::kFinalNorm);
                 const LayerParameters linear = load_parameters(checkpoint, Part::kProjection);
                 head = backend.prepare(ops::ProjectWeights{.norm = norm_weights(norm),
                                                            .linear = linear_weights(linear)});
               }}) {}
};

TextEncoder::TextEncoder(std::unique_ptr<Checkpoint> checkpoint,
                         std::unique_ptr<ops::Backend> backend)
    : checkpoint_(std::move(checkpoint)), backend_(std::move(backend)) {
  const std::int64_t image_dim = checkpoint_->config().vision.hidden;
  if (config().projection != image_dim) {
    fail("{}: embeddings of texts have {} dimensions, but those of images have {}",
         io::escape((checkpoint_->folder() / "config.json").native()), config().projection,
         image_dim);
  }
  weights_ = std::make_unique<TextWeights>(*checkpoint_, *backend_);
  const auto logit = [&](Part part) {
    return double{checkpoint_->load(checkpoint_->tower().weight_name(part))[0]};
  };
  logit_factor_ = std::exp(logit(Part::kLogitScale));
  logit_bias_ = logit(Part::kLogitBias);
}

TextEncoder::~TextEncoder() = default;

std::string TextEncoder::description() const {
  const std::string words = weights_->tower.calibration_words(*backend_);
  return backend_->description() + (words.empty() ? "" : "; ") + words;
}

void TextEncoder::encode(std::span<const std::int32_t> ids, std::int64_t texts,
                         std::span<float> embeddings, StopFlag stop,
                         const std::function<void(std::int64_t texts)>& on_computed) {
  const TextConfig& text = config();
  if (texts < 0 || ids.size() != count(texts * text.tokens) ||
      embeddings.size() != count(texts * text.projection)) {
    fail("{} texts need {} tokens and {} numbers of embeddings, but got {} and {}", texts,
         texts * text.tokens, texts * text.projection, ids.size(), embeddings.size());
  }
  const TowerSpec tower = text.tower();
  const std::string table = tower.weight_name(Part::kTokenTable);
  const DType stream = backend_->types().stream;
  const std::vector<LayerWeights>& layers = weights_->tower.layers();
  const std::size_t hidden = count(text.hidden);
  const std::size_t row_bytes = hidden * size_of(stream);
  HostBuffer input =
      backend_->allocate_input(count(std::min(texts, kMaxTexts) * text.tokens) * row_bytes);
  std::unordered_map<std::int32_t, std::vector<float>> rows;  // for the tokens of this call
  for (std::int64_t first = 0; first < texts; first += kMaxTexts) {
    const std::int64_t part = std::min(kMaxTexts, texts - first);
    const auto tokens = ids.subspan(count(first * text.tokens), count(part * text.tokens));
    rows.clear();
    for (const std::int32_t id : tokens) {
      std::vector<float>& row = rows[id];
      if (row.empty()) {
        stop.poll();
        row.resize(hidden);
        checkpoint_->load_row(table, id, row);
      }
    }
    backend_->for_each(count(part), [&](std::size_t index) {
      for (std::size_t token = 0; token < count(text.tokens); ++token) {
        const std::size_t place = index * count(text.tokens) + token;
        store_sum(rows.at(tokens[place]), weights_->position.span().subspan(token * hidden, hidden),
                  stream, input.data() + place * row_bytes);
      }
    });
    const ops::Batch batch{
        .images = part,
        .tokens = tower.tokens,
        .input = input.span().first(tokens.size() * row_bytes),
        .output = std::as_writable_bytes(
            embeddings.subspan(count(first * text.projection), count(part * text.projection))),
        .workspace_bytes_per_image = Forward::workspace_bytes(tower, stream, layers),
        .stop = stop,
        .on_computed = on_computed};
    backend_->run(batch, [&](ops::Executor& executor, const ops::Slice& slice) {
      Forward forward(tower, stream, layers, executor, slice);
      const TensorView& x = forward.x().values;
      executor.run(ops::ConvertCall{{slice.input, stream, x.shape}, x});
      forward.run_layers(layers.size());
      executor.run(ops::ProjectCall{{.sequences = slice.images,
                                     .tokens = text.tokens,
                                     .token = text.tokens - 1,
                                     .hidden = text.hidden,
                                     .out = text.projection,
                                     .eps = text.layer_norm_eps,
                                     .input = stream},
                                    *weights_->head,
                                    x,
                                    {slice.output, DType::kF32, {slice.images, text.projection}}});
    });
  }
}

}  // namespace fovea::model
