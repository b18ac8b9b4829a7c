// Writes random checkpoints: weights are generated in parallel and written as a stream.
#include "model/init.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/buffer.hpp"
#include "core/convert.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/thread_pool.hpp"
#include "core/wording.hpp"
#include "io/atomic_file.hpp"
#include "io/text.hpp"
#include "model/architecture.hpp"
#include "model/family.hpp"
#include "model/safetensors.hpp"
#include "model/synthetic.hpp"

namespace fovea::model {
namespace {

using nlohmann::ordered_json;
using Recipe = std::function<SyntheticTensor(const TensorSpec&)>;

constexpr std::size_t kChunk = std::size_t{1} << 18;  // elements that a thread generates at once
static_assert(kChunk % SyntheticTensor::kCentredRun == 0);

DType stored_dtype(WeightType type) {
  return type == WeightType::kBF16  ? DType::kBF16
         : type == WeightType::kF16 ? DType::kF16
                                    : DType::kF32;
}

std::size_t tensor_bytes(const TensorSpec& tensor, DType dtype) {
  return static_cast<std::size_t>(tensor.shape.elements()) * size_of(dtype);
}

/// Splits the tensors, in their stored order, so that no file has more than `max_bytes` of data (a
/// larger tensor gets its own file).
std::vector<std::vector<TensorSpec>> split(std::vector<TensorSpec> tensors, DType dtype,
                                           std::uint64_t max_bytes) {
  std::ranges::sort(tensors, {}, &TensorSpec::name);  // the order of the safetensors library
  std::vector<std::vector<TensorSpec>> shards(1);
  std::uint64_t filled = 0;
  for (TensorSpec& tensor : tensors) {
    const std::uint64_t bytes = tensor_bytes(tensor, dtype);
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
                   DType dtype, const Recipe& recipe, ThreadPool& pool) {
  io::AtomicFile file(path);
  std::vector<TensorEntry> entries;
  for (const TensorSpec& spec : tensors) {
    const auto dims = spec.shape.dims();
    entries.push_back({.name = spec.name,
                       .dtype = stored_name(dtype),
                       .shape = {dims.begin(), dims.end()},
                       .bytes = tensor_bytes(spec, dtype)});
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
    const SyntheticTensor tensor = recipe(spec);
    const auto elements = static_cast<std::size_t>(spec.shape.elements());
    for (std::size_t begin = 0; begin < elements; begin += window * kChunk) {
      const std::size_t part = std::min(window * kChunk, elements - begin);
      pool.parallel_for((part + kChunk - 1) / kChunk, [&](std::size_t chunk, int worker) {
        const std::size_t first = chunk * kChunk;
        const std::span<float> values =
            scratch[static_cast<std::size_t>(worker)].span().first(std::min(kChunk, part - first));
        tensor.fill(begin + first, values);
        narrow(values.data(), std::ssize(values), dtype, bytes.data() + first * size_of(dtype));
      });
      file.write(std::span<const std::byte>(bytes.data(), part * size_of(dtype)));
    }
  }
  file.commit();
}

bool is_weight_file(const std::string& name) {
  return name == "model.safetensors" || name == "model.safetensors.index.json" ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

/// Creates the folder, or checks that it may be overwritten. config.json is removed first and
/// written last, so that a folder that contains it is complete.
void prepare_folder(const InitOptions& options, const std::optional<NewTokenizer>& tokenizer) {
  const std::string shown = io::escape(options.folder.native());
  if (options.folder.empty()) {
    fail("the output folder of the model is empty");
  }
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    fail("{}: cannot create the folder: {}", shown, error.message());
  }
  std::filesystem::directory_iterator entries(options.folder, error);
  if (error) {
    fail("{}: cannot read the folder: {}", shown, error.message());
  }
  if (entries == std::filesystem::directory_iterator{}) {
    return;
  }
  if (!options.overwrite) {
    fail("{}: the folder is not empty; name another one, or pass {} to replace its model", shown,
         option_words("overwrite"));
  }
  std::vector<std::filesystem::path> old{options.folder / "config.json",
                                         options.folder / "preprocessor_config.json"};
  for (const std::string_view name :
       tokenizer ? tokenizer->files : std::span<const std::string_view>()) {
    old.push_back(options.folder / name);
  }
  for (const auto& entry : entries) {
    if (is_weight_file(entry.path().filename().native())) {
      old.push_back(entry.path());
    }
  }
  for (const std::filesystem::path& path : old) {
    if (!std::filesystem::remove(path, error) && error) {
      fail("{}: cannot remove the file: {}", io::escape(path.native()), error.message());
    }
  }
}

void write_json(const std::filesystem::path& path, const ordered_json& document) {
  io::write_file_atomically(path, document.dump(2) + "\n");
}

}  // namespace

void write_checkpoint(const InitOptions& options, const std::optional<NewTokenizer>& tokenizer) {
  auto [name_of_preset, vision, text] = find_preset(options.preset);
  if (options.layers < 0 || options.layers > 512) {
    fail("invalid number of layers {}; expected 1 to 512, or 0 for as many as the preset has",
         options.layers);
  }
  if (options.layers > 0) {
    vision.layers = options.layers;
    text.layers = options.layers;
  }
  const DType dtype = stored_dtype(options.dtype);
  std::vector<TensorSpec> tensors = vision_tensors(vision);
  if (tokenizer) {
    text.vocabulary = tokenizer->vocabulary;
    std::ranges::move(text_tensors(text), std::back_inserter(tensors));
  }
  std::uint64_t total = 0;
  for (const TensorSpec& tensor : tensors) {
    total += tensor_bytes(tensor, dtype);
  }
  const auto shards = split(std::move(tensors), dtype, options.max_shard_bytes);
  prepare_folder(options, tokenizer);
  const SyntheticWeights vision_weights(vision, options.seed);
  const SyntheticWeights text_weights(text, options.seed);
  const auto recipe = [&](const TensorSpec& spec) {
    return (spec.tower == Tower::kVision ? vision_weights : text_weights).make(spec);
  };
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  ordered_json weight_map;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = shards.size() == 1 ? std::string("model.safetensors")
                                                : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                              shard + 1, shards.size());
    write_weights(options.folder / name, shards[shard], dtype, recipe, pool);
    for (const TensorSpec& tensor : shards[shard]) {
      weight_map[tensor.name] = name;
    }
  }
  if (shards.size() > 1) {
    write_json(options.folder / "model.safetensors.index.json",
               {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}});
  }
  write_json(options.folder / "preprocessor_config.json", vision.family->preprocessor_json(vision));
  if (tokenizer) {
    tokenizer->write(options.folder);
  }
  write_json(options.folder / "config.json", vision.family->config_json(vision, text));
}

}  // namespace fovea::model
