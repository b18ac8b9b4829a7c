// Names and shapes of a tower's tensors, from the table of its family.
#include "model/tower_spec.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace fovea::model {
namespace {

const PartName& entry_of(const TowerSpec& tower, Part part) {
  const auto found = std::ranges::find(tower.names->parts, part, &PartName::part);
  if (found == tower.names->parts.end()) {
    fail("the tower of tensors \"{}\" has no part {}", tower.names->prefix, static_cast<int>(part));
  }
  return *found;
}

std::string stem_of(const PartName& name, std::int64_t layer) {
  return fmt::format(fmt::runtime(name.stem), layer);
}

std::string_view weight_ending(Ending ending) {
  return ending == Ending::kNone ? "" : ending == Ending::kInProjection ? "_weight" : ".weight";
}

std::string_view bias_ending(Ending ending) {
  return ending == Ending::kInProjection ? "_bias" : ".bias";
}

bool has_bias(Ending ending) {
  return ending == Ending::kWeightAndBias || ending == Ending::kInProjection;
}

/// The dimensions of a weight that every tower has; empty for other parts.
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
  return stem_of(entry_of(*this, part), layer);
}

std::string TowerSpec::weight_name(Part part, std::int64_t layer) const {
  const PartName& name = entry_of(*this, part);
  return stem_of(name, layer).append(weight_ending(name.ending));
}

std::string TowerSpec::bias_name(Part part, std::int64_t layer) const {
  const PartName& name = entry_of(*this, part);
  return stem_of(name, layer).append(bias_ending(name.ending));
}

std::vector<TensorSpec> tensors_of(const TowerSpec& tower, const std::function<Dims(Part)>& own) {
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
    const std::string stem = stem_of(name, layer);
    const std::int64_t outputs = dims.front();
    dims.insert(dims.begin(), static_cast<std::size_t>(name.leading_ones), 1);
    spec.name = stem + std::string(weight_ending(name.ending));
    spec.shape = Shape(std::move(dims));
    tensors.push_back(spec);
    if (has_bias(name.ending)) {
      spec.name = stem + std::string(bias_ending(name.ending));
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
