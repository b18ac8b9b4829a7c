// Writes a case as a task in the format of KernelBench.
#include "lab/cards/torch_task.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "lab/cards/card.hpp"

namespace fovea::lab {
namespace {

constexpr std::string_view kTask = R"(# {card}, case {name}: {problem}
# A task in KernelBench's form, written by `fovea kernel export`: {operation}.
import torch
import torch.nn.functional as F
from torch import nn


def drawn(dtype, shape, mean, deviation):
    values = torch.randn(shape) * deviation + mean
    if not dtype.is_floating_point:
        values = values.round().clamp(torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    elif dtype.itemsize == 1:
        values = values.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)
    return values.to(dtype)


def weight(dtype, shape, mean, deviation):
    return nn.Parameter(drawn(dtype, shape, mean, deviation), requires_grad=False)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{weights}
    def forward(self, {inputs}):
{forward}

def get_inputs():
    return [
{draws}    ]


def get_init_inputs():
    return []
)";

TorchTask::Drawn drawn_like(const Tensor& tensor, DType type, std::vector<std::int64_t> shape,
                            bool weight) {
  if (shape.empty() && tensor.rows() > 1) {
    shape.push_back(tensor.rows());
  }
  if (shape.empty() || shape.size() == 1) {
    shape.push_back(tensor.columns());
  }
  std::string name = tensor.name();
  std::ranges::replace(name, ' ', '_');
  return {.name = std::move(name),
          .type = type,
          .shape = std::move(shape),
          .draw = tensor.draw(),
          .weight = weight};
}

}  // namespace

void TorchTask::input(const Tensor& tensor, std::vector<std::int64_t> shape) {
  tensors.push_back(drawn_like(tensor, tensor.type(), std::move(shape), false));
}

void TorchTask::weight(const Tensor& tensor, DType type, std::vector<std::int64_t> shape) {
  tensors.push_back(drawn_like(tensor, type, std::move(shape), true));
}

std::string_view torch_name(DType type) {
  constexpr std::array<std::string_view, std::size(kDTypes)> kNames = {
      "uint8", "int8", "float8_e4m3fn", "", "float16", "bfloat16", "float32", "float64"};
  const std::string_view name = kNames.at(static_cast<std::size_t>(type));
  if (name.empty()) {
    fail("torch has no type for tensors of {}", to_string(type));
  }
  return name;
}

std::string to_kernelbench(const Card& card, const Case& card_case) {
  const std::unique_ptr<Workload> workload = card_case.make(0);
  const TorchTask task = workload->torch_task();
  if (!task.why_not.empty()) {
    fail("{} {} cannot be expressed as a torch task: {}", card.name, card_case.name, task.why_not);
  }
  std::string weights;
  std::string draws;
  std::vector<std::string> inputs;
  for (const TorchTask::Drawn& tensor : task.tensors) {
    const std::string values =
        fmt::format("(torch.{}, [{}], {}, {})", torch_name(tensor.type),
                    fmt::join(tensor.shape, ", "), tensor.draw.mean, tensor.draw.deviation);
    if (tensor.weight) {
      weights += fmt::format("        self.{} = weight{}\n", tensor.name, values);
    } else {
      draws += fmt::format("        drawn{},\n", values);
      inputs.push_back(tensor.name);
    }
  }
  std::string forward;
  for (std::size_t begin = 0; begin < task.forward.size();) {
    const std::size_t end = std::min(task.forward.find('\n', begin), task.forward.size());
    forward += "        " + task.forward.substr(begin, end - begin) + '\n';
    begin = end + 1;
  }
  return fmt::format(kTask, fmt::arg("card", card.name), fmt::arg("name", card_case.name),
                     fmt::arg("problem", workload->describe()),
                     fmt::arg("operation", card.operation), fmt::arg("weights", weights),
                     fmt::arg("inputs", fmt::join(inputs, ", ")), fmt::arg("forward", forward),
                     fmt::arg("draws", draws));
}

}  // namespace fovea::lab
