// Names and shapes of a tower's tensors, from the table of its family.
#include "model/tower_spec.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::model {
namespace {

const PartName& find_part(const TowerSpec& tower, Part part) {
  const auto found = std::ranges::find(tower.names->parts, part, &PartName::part);
  if (found == tower.names->parts.end()) {
    fail("the tower with tensors \"{}\" has no part {}", tower.names->prefix,
         static_cast<int>(part));
  }
  return *found;
}

std::string format_stem(const PartName& name, std::int64_t layer) {
  return fmt::format(fmt::runtime(name.stem), layer);
}

std::string_view weight_suffix(NameSuffix suffix) {
  return suffix == NameSuffix::kNone           ? ""
         : suffix == NameSuffix::kInProjection ? "_weight"
                                               : ".weight";
}

std::string_view bias_suffix(NameSuffix suffix) {
  return suffix == NameSuffix::kInProjection ? "_bias" : ".bias";
}

bool has_bias(NameSuffix suffix) {
  return suffix == NameSuffix::kWeightAndBias || suffix == NameSuffix::kInProjection;
}

/// Returns the dimensions of a weight that every tower has; nothing for other parts.
Dims common_dims(const TowerSpec& tower, Part part) {
  switch (part) {
    case Part::kNorm1:
    case Part::kNorm2:
    case Part::kFinalNorm:
      return {tower.hidden};
    case Part::kQuery:
    case Part::kKey:
    case Part::kValue:
    case Part::kOut:
      return {tower.hidden, tower.hidden};
    case Part::kFc1:
      return {tower.mlp, tower.hidden};
    case Part::kFc2:
      return {tower.hidden, tower.mlp};
    default:
      return {};
  }
}

}  // namespace

std::string TowerSpec::stem(Part part, std::int64_t layer) const {
  return format_stem(find_part(*this, part), layer);
}

std::string TowerSpec::weight_name(Part part, std::int64_t layer) const {
  const PartName& name = find_part(*this, part);
  return format_stem(name, layer).append(weight_suffix(name.suffix));
}

std::string TowerSpec::bias_name(Part part, std::int64_t layer) const {
  const PartName& name = find_part(*this, part);
  return format_stem(name, layer).append(bias_suffix(name.suffix));
}

std::vector<TensorSpec> tower_tensors(const TowerSpec& tower,
                                      const std::function<Dims(Part)>& own) {
  std::vector<TensorSpec> tensors;
  const auto add = [&](const PartName& name, std::int64_t layer) {
    Dims dims = common_dims(tower, name.part);
    if (dims.empty()) {
      dims = own(name.part);
    }
    if (dims.empty()) {
      return;
    }
    TensorSpec spec{
        .name = {}, .shape = {}, .tower = tower.tower, .part = name.part, .layer = layer};
    const std::string stem = format_stem(name, layer);
    const std::int64_t outputs = dims.front();
    dims.insert(dims.begin(), static_cast<std::size_t>(name.leading_ones), 1);
    spec.name = stem + std::string(weight_suffix(name.suffix));
    spec.shape = Shape(std::move(dims));
    tensors.push_back(spec);
    if (has_bias(name.suffix)) {
      spec.name = stem + std::string(bias_suffix(name.suffix));
      spec.shape = {outputs};
      spec.is_bias = true;
      tensors.push_back(std::move(spec));
    }
  };
  const auto is_of_layers = [](const PartName& name) {
    return name.stem.find("{}") != std::string_view::npos;
  };
  const auto& parts = tower.names->parts;
  const auto first = std::ranges::find_if(parts, is_of_layers);
  const auto behind = std::find_if_not(first, parts.end(), is_of_layers);
  for (auto name = parts.begin(); name != first; ++name) {
    add(*name, 0);
  }
  for (std::int64_t layer = 0; layer < tower.layers; ++layer) {
    for (auto name = first; name != behind; ++name) {
      add(*name, layer);
    }
  }
  for (auto name = behind; name != parts.end(); ++name) {
    add(*name, 0);
  }
  return tensors;
}

}  // namespace fovea::model
