// Features: hidden states of a model's vision tower for each patch of an image, or its pooled
// output.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/images.hpp"

namespace [[gnu::visibility("default")]] fovea {

enum class OutputDType : std::uint8_t { kF32, kF16 };

/// Which features, as transformers names the outputs of its SigLIP vision models.
class FeatureLayer {
 public:
  enum class Kind : std::uint8_t {
    kHidden,  ///< hidden_states[index], [tokens, hidden]
    kLast,    ///< last_hidden_state, after the last norm, [tokens, hidden]
    kPooled,  ///< pooler_output, [hidden]: the embedding before it is scaled
  };

  /// Constructs the features of the last layer.
  constexpr FeatureLayer() = default;
  /// hidden_states[index]: 0 is the input of the first layer, 1 its output. Negative indices count
  /// from the end: -1 is the output of the last layer, before the norm that follows, and -2 its
  /// input.
  constexpr FeatureLayer(int index)  // NOLINT(google-explicit-constructor): layer = -2
      : kind_(Kind::kHidden), index_(index) {}

  [[nodiscard]] static constexpr FeatureLayer last() { return {}; }
  [[nodiscard]] static constexpr FeatureLayer penultimate() { return {-2}; }
  [[nodiscard]] static constexpr FeatureLayer pooled() {
    FeatureLayer layer;
    layer.kind_ = Kind::kPooled;
    return layer;
  }

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr int index() const { return index_; }  ///< for kHidden

  friend bool operator==(const FeatureLayer&, const FeatureLayer&) = default;

 private:
  Kind kind_ = Kind::kLast;
  int index_ = 0;
};

/// "last", "penultimate", "pooled", or the index, such as "-3". Throws fovea::Error for others.
[[nodiscard]] FeatureLayer parse_feature_layer(std::string_view name);
/// Returns the name that parse_feature_layer() accepts.
[[nodiscard]] std::string to_string(const FeatureLayer& layer);

struct FeaturesOptions {
  FeatureLayer layer;
  /// Numbers beyond 65504 become infinite with kF16.
  OutputDType dtype = OutputDType::kF16;
  int batch_size = 0;      ///< images computed together; 0: Encoder::preferred_batch()
  int decode_threads = 0;  ///< 0: one per CPU that this process may use
  /// Bytes that the images being read and decoded may take together; see EmbedOptions.
  std::uint64_t decode_memory = 0;
  std::int64_t max_pixels = 0;  ///< larger images fail; see InputOptions
  /// When set to true, the call throws Error within two seconds.
  const std::atomic<bool>* stop = nullptr;
  /// Called from one of the call's threads, with the number of images done.
  std::function<void(std::size_t done)> on_progress;
  /// Called with notes for the user, for example that the memory of the device ran short.
  std::function<void(std::string_view)> on_note;
};

/// Features of images in the memory of the device that computed them. Copies share the memory,
/// which may outlive the Encoder.
class Features {
 public:
  /// Features of no images.
  Features();
  ~Features();
  Features(const Features&);
  Features(Features&&) noexcept;
  Features& operator=(const Features&);
  Features& operator=(Features&&) noexcept;

  /// [images, tokens, hidden], or [images, hidden] for pooled features.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const;
  [[nodiscard]] OutputDType dtype() const;
  /// Size of the row-major array in bytes.
  [[nodiscard]] std::size_t bytes() const;
  /// The CUDA device whose memory holds the array; nullopt: the host.
  [[nodiscard]] std::optional<int> cuda_device() const;
  /// Address of the array in the memory of that device. Its values are complete, so readers need
  /// not synchronise. The memory is freed with the last copy of this object, after all work on the
  /// device is done.
  [[nodiscard]] void* data() const;
  /// Copies the array to `host`, which must be bytes() long. Throws fovea::Error when the device
  /// fails.
  void copy_to(std::span<std::byte> host) const;

 private:
  friend class Encoder;
  struct [[gnu::visibility("hidden")]] Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace fovea
