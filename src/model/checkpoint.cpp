// Finds, checks and converts the weights in a model folder.
#include "model/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/convert.hpp"
#include "core/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/text.hpp"

namespace fovea::model {
namespace {

/// Returns the first component of a name: "encoder." for "encoder.layers.0.mlp.fc1.weight".
std::string_view first_component(std::string_view name) {
  return name.substr(0, name.find('.') + 1);
}

bool same_shape(const Shape& expected, std::span<const std::uint64_t> found) {
  return std::ranges::equal(expected.dims(), found,
                            [](std::int64_t a, std::uint64_t b) { return std::cmp_equal(a, b); });
}

/// Joins the first entries of a list, for a message.
std::string join_first(const std::vector<std::string>& list, std::string_view separator) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t index = 0; index < std::min(kShown, list.size()); ++index) {
    text += (index == 0 ? "" : std::string(separator)) + list[index];
  }
  if (list.size() > kShown) {
    text += fmt::format("{}... ({} in total)", separator, list.size());
  }
  return text;
}

/// Returns the names of the tensors in each shard, by the shard's name.
std::map<std::string, std::vector<std::string>> read_weight_map(const std::filesystem::path& path) {
  const std::string shown = io::escape(path.native());
  const nlohmann::json root = io::parse_json_object(io::read_small_file(path), shown);
  const auto weight_map = root.find("weight_map");
  if (weight_map == root.end() || !weight_map->is_object()) {
    fail("{}: has no object \"weight_map\" (tensor name to file name)", shown);
  }
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, shard] : weight_map->items()) {
    if (!shard.is_string()) {
      fail("{}: the weight_map entry of tensor \"{}\" is not a file name", shown, io::escape(name));
    }
    const auto& file = shard.get_ref<const std::string&>();
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos) {
      fail("{}: weight_map places tensor \"{}\" in \"{}\", which is not a plain file name", shown,
           io::escape(name), io::escape(file));
    }
    shards[file].push_back(name);
  }
  return shards;
}

constexpr std::size_t kBlock = 1 << 16;  // elements: a block stays in the cache
using Halves = std::array<std::uint16_t, kBlock>;

/// Returns the index of the first value that is not finite, or `count`. The loop has no branches,
/// so that compilers vectorise it.
std::size_t first_not_finite(const float* values, std::size_t count) {
  const auto is_bad = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7f800000U) == 0x7f800000U;
  };
  std::uint32_t bad = 0;
  for (std::size_t index = 0; index < count; ++index) {
    bad |= static_cast<std::uint32_t>(is_bad(values[index]));
  }
  return bad == 0 ? count
                  : static_cast<std::size_t>(std::find_if(values, values + count, is_bad) - values);
}

}  // namespace

WeightFiles::WeightFiles(const std::filesystem::path& folder, const VisionConfig& config,
                         StopFlag stop)
    : WeightFiles(folder, config.tower(), vision_tensors(config), stop) {}

WeightFiles::WeightFiles(const std::filesystem::path& folder, const TextConfig& config,
                         StopFlag stop)
    : WeightFiles(folder, config.tower(), text_tensors(config), stop) {}

WeightFiles::WeightFiles(const std::filesystem::path& folder, const TowerSpec& tower,
                         const std::vector<TensorSpec>& wanted, StopFlag stop)
    : tower_(tower) {
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (io::exists(single)) {
    match(open_single(single, stop), wanted);
  } else if (io::exists(index)) {
    match(open_shards(index, stop), wanted);
  } else {
    const bool pickled = io::exists(folder / "pytorch_model.bin") ||
                         io::exists(folder / "pytorch_model.bin.index.json");
    fail("{}: holds no model.safetensors and no model.safetensors.index.json{}",
         io::escape(folder.native()),
         pickled ? "; pytorch_model.bin is not supported (it can run code): save it as safetensors"
                 : "");
  }
}

WeightFiles::Inventory WeightFiles::open_single(const std::filesystem::path& path, StopFlag stop) {
  files_.emplace_back(path, stop);
  Inventory inventory;
  for (const auto& [name, stored] : files_.front().tensors()) {
    inventory.emplace(name, Tensor{&files_.front(), &stored});
  }
  return inventory;
}

WeightFiles::Inventory WeightFiles::open_shards(const std::filesystem::path& index, StopFlag stop) {
  const auto shards = read_weight_map(index);
  const bool bare =
      tower_.tower == Tower::kVision && std::ranges::none_of(shards, [&](const auto& shard) {
        return std::ranges::any_of(shard.second,
                                   [&](const auto& name) { return belongs(name, false); });
      });
  files_.reserve(shards.size());  // `inventory` keeps pointers to its elements
  Inventory inventory;
  for (const auto& [file, names] : shards) {
    // Shards with only the other tower are not opened and need not exist.
    if (std::ranges::none_of(names, [&](const auto& name) { return belongs(name, bare); })) {
      continue;
    }
    files_.emplace_back(index.parent_path() / file, stop);
    const StoredTensors& tensors = files_.back().tensors();
    for (const std::string& name : names) {
      const auto found = tensors.find(name);
      if (found == tensors.end()) {
        fail("{}: weight_map places tensor \"{}\" in {}, which does not hold it",
             io::escape(index.native()), io::escape(name), io::escape(file));
      }
      inventory.emplace(name, Tensor{&files_.back(), &found->second});
    }
  }
  return inventory;
}

bool WeightFiles::belongs(std::string_view name, bool bare) const {
  const std::string_view prefix = tower_.names->prefix;
  if (name.starts_with(prefix) && !bare) {
    return true;
  }
  // Recognises names without the prefix: those of the logits and, where all tensors lack it, those
  // with the same first component as a tensor of the tower.
  return std::ranges::any_of(tower_.names->parts, [&](const PartName& part) {
    if (!part.stem.starts_with(prefix)) {
      return name == part.stem;
    }
    return bare && name.starts_with(first_component(part.stem.substr(prefix.size())));
  });
}

void WeightFiles::match(const Inventory& stored, const std::vector<TensorSpec>& wanted) {
  const bool bare =
      tower_.tower == Tower::kVision &&
      std::ranges::none_of(stored, [&](const auto& entry) { return belongs(entry.first, false); });
  std::set<std::string, std::less<>> used;
  for (const TensorSpec& spec : wanted) {
    const std::string_view name =
        bare ? std::string_view(spec.name).substr(tower_.names->prefix.size())
             : std::string_view(spec.name);
    const auto found = stored.find(name);
    if (found == stored.end()) {
      missing_.emplace_back(name);
      continue;
    }
    used.emplace(name);
    const StoredTensor& tensor = *found->second.stored;
    const std::optional<DType> dtype = tensor.float_dtype();
    if (!same_shape(spec.shape, tensor.shape)) {
      unusable_.push_back(fmt::format("{} has shape {}, expected {}", name, tensor.shape_text(),
                                      spec.shape.to_string()));
    } else if (!dtype) {
      unusable_.push_back(
          fmt::format("{} has dtype {}, expected F32, F16 or BF16", name, tensor.dtype));
    } else {
      tensors_.emplace(spec.name, Tensor{found->second.file, &tensor, *dtype});
    }
  }
  for (const auto& [name, located] : stored) {
    if (belongs(name, bare) && !used.contains(name)) {
      unused_.push_back(io::escape(name));
    }
  }
}

Checkpoint::Checkpoint(const std::filesystem::path& folder, StopFlag stop, Tower tower,
                       std::filesystem::path calibrations, Families supported)
    : folder_(folder),
      calibrations_(std::move(calibrations)),
      tower_(tower),
      config_(read_model_config(folder, supported)),
      text_(tower == Tower::kText ? read_text_config(folder, supported) : TextConfig{}),
      stop_(stop),
      weights_(tower == Tower::kText ? WeightFiles(folder, text_, stop)
                                     : WeightFiles(folder, config_.vision, stop)) {
  if (!weights_.missing().empty()) {
    fail("{}: {} tensors of the {} tower are missing: {}", io::escape(folder.native()),
         weights_.missing().size(), tower == Tower::kText ? "text" : "vision",
         join_first(weights_.missing(), ", "));
  }
  if (!weights_.unusable().empty()) {
    fail("{}: the weights do not match config.json: {}", io::escape(folder.native()),
         join_first(weights_.unusable(), "; "));
  }
}

const WeightFiles::Tensor& Checkpoint::find(std::string_view name) const {
  const auto found = weights_.tensors().find(name);
  if (found == weights_.tensors().end()) {
    fail("{}: the model has no tensor \"{}\"", io::escape(folder_.native()), io::escape(name));
  }
  return found->second;
}

AlignedBuffer<float> Checkpoint::load(std::string_view name) const {
  const WeightFiles::Tensor& tensor = find(name);
  AlignedBuffer<float> values(tensor.stored->bytes / size_of(tensor.dtype));
  read(name, tensor, 0, values.span());
  return values;
}

void Checkpoint::load_row(std::string_view name, std::int64_t row, std::span<float> values) const {
  const WeightFiles::Tensor& tensor = find(name);
  const std::vector<std::uint64_t>& shape = tensor.stored->shape;
  if (shape.size() != 2 || shape[1] != values.size() || row < 0 ||
      std::cmp_greater_equal(row, shape[0])) {
    fail("{}: tensor \"{}\" of shape {} has no row {} with {} values", io::escape(folder_.native()),
         name, tensor.stored->shape_text(), row, values.size());
  }
  read(name, tensor, static_cast<std::size_t>(row) * values.size(), values);
}

void Checkpoint::read(std::string_view name, const WeightFiles::Tensor& tensor, std::size_t begin,
                      std::span<float> values) const {
  const auto& [file, stored, dtype] = tensor;
  const std::size_t width = size_of(dtype);
  const auto halves = dtype == DType::kF32 ? nullptr : std::make_unique_for_overwrite<Halves>();
  for (std::size_t done = 0; done < values.size(); done += kBlock) {
    stop_.poll();
    const std::span block = values.subspan(done, std::min(kBlock, values.size() - done));
    const std::uint64_t offset = stored->offset + (begin + done) * width;
    if (dtype == DType::kF32) {
      file->file().read_at(offset, std::as_writable_bytes(block));
    } else {
      const std::span part = std::span(*halves).first(block.size());
      file->file().read_at(offset, std::as_writable_bytes(part));
      widen(part.data(), dtype, std::ssize(part), 1.0F, block.data());
    }
    const std::size_t bad = first_not_finite(block.data(), block.size());
    if (bad != block.size()) {
      fail("{}: tensor \"{}\" holds {} at index {} (byte {} of the file); the weights are damaged",
           io::escape(file->file().path().native()), name, block[bad], begin + done + bad,
           offset + bad * width);
    }
  }
}

std::uint64_t Checkpoint::fingerprint() const {
  constexpr std::size_t kSample = 4096;
  std::array<std::byte, kSample> buffer;
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, 64 bits
  const auto add = [&](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
    }
  };
  for (const auto& [name, tensor] : weights_.tensors()) {
    const auto sample =
        std::span(buffer).first(std::min<std::uint64_t>(kSample, tensor.stored->bytes));
    add(std::as_bytes(std::span(name)));
    add(std::as_bytes(std::span(tensor.stored->dtype)));
    add(std::as_bytes(std::span(tensor.stored->shape)));
    const std::uint64_t begin = tensor.stored->offset;
    const std::uint64_t end = begin + tensor.stored->bytes;
    for (const std::uint64_t offset : {begin, end - sample.size()}) {
      tensor.file->file().read_at(offset, sample);
      add(sample);
    }
  }
  return hash;
}

}  // namespace fovea::model
