// Writes random checkpoints: weights are generated in parallel and written as a stream.
#include "model/init.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "model/architecture.hpp"
#include "model/presets.hpp"
#include "model/safetensors.hpp"
#include "model/synthetic.hpp"

namespace fovea::model {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;  // elements that a thread makes at a time
static_assert(kChunk % SyntheticTensor::kCentredRun == 0);

DType stored_dtype(WeightType type) {
  return type == WeightType::kBF16  ? DType::kBF16
         : type == WeightType::kF16 ? DType::kF16
                                    : DType::kF32;
}

std::string_view stored_name(DType type) {
  return type == DType::kBF16 ? "BF16" : type == DType::kF16 ? "F16" : "F32";
}

std::size_t bytes_of(const TensorSpec& tensor, DType dtype) {
  return static_cast<std::size_t>(tensor.shape.elements()) * size_of(dtype);
}

void narrow(std::span<const float> values, DType dtype, std::byte* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t index = 0; index < values.size(); ++index) {
    const std::uint16_t bits =
        dtype == DType::kBF16 ? to_bfloat16(values[index]).bits : to_float16(values[index]).bits;
    std::memcpy(out + index * sizeof(bits), &bits, sizeof(bits));
  }
}

/// Tensors in their stored order, split so that the data of no file exceeds `max_bytes` (a larger
/// tensor has its own file).
std::vector<std::vector<TensorSpec>> split(std::vector<TensorSpec> tensors, DType dtype,
                                           std::uint64_t max_bytes) {
  std::ranges::sort(tensors, {}, &TensorSpec::name);  // as the safetensors library stores them
  std::vector<std::vector<TensorSpec>> shards(1);
  std::uint64_t filled = 0;
  for (TensorSpec& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor, dtype);
    if (filled > 0 && filled + bytes > max_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

void write_weights(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                   DType dtype, const SyntheticWeights& weights, ThreadPool& pool) {
  io::AtomicFile file(path);
  std::vector<TensorEntry> entries;
  for (const TensorSpec& spec : tensors) {
    const auto dims = spec.shape.dims();
    entries.push_back({.name = spec.name,
                       .dtype = stored_name(dtype),
                       .shape = {dims.begin(), dims.end()},
                       .bytes = bytes_of(spec, dtype)});
  }
  file.write(safetensors_header(entries));
  const auto team = static_cast<std::size_t>(pool.threads());
  const std::size_t window = 2 * team;  // chunks in memory at once
  std::vector<AlignedBuffer<float>> scratch(team);
  for (AlignedBuffer<float>& values : scratch) {
    values = AlignedBuffer<float>(kChunk);
  }
  AlignedBuffer<std::byte> bytes(window * kChunk * size_of(dtype));
  for (const TensorSpec& spec : tensors) {
    const SyntheticTensor tensor = weights.make(spec);
    const auto elements = static_cast<std::size_t>(spec.shape.elements());
    for (std::size_t begin = 0; begin < elements; begin += window * kChunk) {
      const std::size_t part = std::min(window * kChunk, elements - begin);
      pool.parallel_for((part + kChunk - 1) / kChunk, [&](std::size_t chunk, int worker) {
        const std::size_t first = chunk * kChunk;
        const std::span<float> values =
            scratch[static_cast<std::size_t>(worker)].span().first(std::min(kChunk, part - first));
        tensor.fill(begin + first, values);
        narrow(values, dtype, bytes.data() + first * size_of(dtype));
      });
      file.write(std::span<const std::byte>(bytes.data(), part * size_of(dtype)));
    }
  }
  file.commit();
}

/// As on the hub: fields that have transformers' default values are left out.
std::string config_json(const VisionConfig& config) {
  const VisionConfig defaults;
  std::string fields;
  const auto add = [&](std::string_view name, std::int64_t value, std::int64_t usual) {
    if (value != usual) {
      fields += fmt::format("    \"{}\": {},\n", name, value);
    }
  };
  add("hidden_size", config.hidden, defaults.hidden);
  add("image_size", config.image_size, defaults.image_size);
  add("intermediate_size", config.mlp, defaults.mlp);
  fields += "    \"model_type\": \"siglip_vision_model\",\n";
  add("num_attention_heads", config.heads, defaults.heads);
  add("num_hidden_layers", config.layers, defaults.layers);
  add("patch_size", config.patch, defaults.patch);
  fields.erase(fields.size() - 2);  // the last comma
  return fmt::format(R"({{
  "initializer_factor": 1.0,
  "model_type": "siglip",
  "text_config": {{
    "model_type": "siglip_text_model",
    "vocab_size": 256000
  }},
  "vision_config": {{
{}
  }}
}}
)",
                     fields);
}

std::string preprocessor_json(const VisionConfig& config) {
  return fmt::format(R"({{
  "do_convert_rgb": null,
  "do_normalize": true,
  "do_rescale": true,
  "do_resize": true,
  "image_mean": [
    0.5,
    0.5,
    0.5
  ],
  "image_processor_type": "SiglipImageProcessor",
  "image_std": [
    0.5,
    0.5,
    0.5
  ],
  "processor_class": "SiglipProcessor",
  "resample": 2,
  "rescale_factor": 0.00392156862745098,
  "size": {{
    "height": {0},
    "width": {0}
  }}
}}
)",
                     config.image_size);
}

bool is_weight_file(const std::string& name) {
  return name == "model.safetensors" || name == "model.safetensors.index.json" ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

/// Makes the folder, or checks that it may be filled. config.json is removed first and written
/// last, so that a folder with one is whole.
void prepare_folder(const InitOptions& options) {
  const std::string shown = io::escape(options.folder.native());
  if (options.folder.empty()) {
    fail("no output folder was given for the model");
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    fail("{}: cannot make the folder: {}", shown, error.message());
  }
  std::filesystem::directory_iterator entries(options.folder, error);
  if (error) {
    fail("{}: cannot read the folder: {}", shown, error.message());
  }
  if (entries == std::filesystem::directory_iterator{}) {
    return;
  }
  if (!options.overwrite) {
    fail("{}: the folder is not empty; name another one, or pass --overwrite to replace its model",
         shown);
  }
  std::vector<std::filesystem::path> old{options.folder / "config.json",
                                         options.folder / "preprocessor_config.json"};
  for (const auto& entry : entries) {
    if (is_weight_file(entry.path().filename().native())) {
      old.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& path : old) {
    if (!std::filesystem::remove(path, error) && error) {
      fail("{}: cannot remove: {}", io::escape(path.native()), error.message());
    }
  }
}

}  // namespace

void write_checkpoint(const InitOptions& options) {
  VisionConfig config = find_preset(options.preset).config;
  if (options.layers < 0 || options.layers > 512) {
    fail("invalid number of layers {}; expected 1 to 512, or 0 for as many as the preset has",
         options.layers);
  }
  if (options.layers > 0) {
    config.layers = options.layers;
  }
  const DType dtype = stored_dtype(options.dtype);
  const auto shards = split(vision_tensors(config), dtype, options.max_shard_bytes);
  prepare_folder(options);
  const SyntheticWeights weights(config, options.seed);
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  std::string weight_map;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = shards.size() == 1 ? std::string("model.safetensors")
                                                : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                              shard + 1, shards.size());
    write_weights(options.folder / name, shards[shard], dtype, weights, pool);
    for (const TensorSpec& tensor : shards[shard]) {
      weight_map += fmt::format("{}\n    {}: {}", weight_map.empty() ? "" : ",",
                                io::json_quote(tensor.name), io::json_quote(name));
    }
  }
  if (shards.size() > 1) {
    const auto total = static_cast<std::size_t>(parameter_count(config)) * size_of(dtype);
    io::write_file_atomically(
        options.folder / "model.safetensors.index.json",
        fmt::format(
            "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{{}\n"
            "  }}\n}}\n",
            total, weight_map));
  }
  io::write_file_atomically(options.folder / "preprocessor_config.json", preprocessor_json(config));
  io::write_file_atomically(options.folder / "config.json", config_json(config));
}

}  // namespace fovea::model
