// A stand-in for libcudnn: keeps the graph that it is given and computes it, operation by
// operation, in float64 on host memory. FAKE_CUDNN_VERSION is the number that it says its version
// is; FAKE_CUDNN_REFUSALS how many of its three engines refuse.
#include "lab/peers/cudnn.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace {

using fovea::lab::cudnn::Attribute;
using fovea::lab::cudnn::AttributeType;
using fovea::lab::cudnn::DataType;
using fovea::lab::cudnn::DescriptorType;
using fovea::lab::cudnn::PointwiseMode;
using fovea::lab::cudnn::Reduction;
using Dims = std::array<std::int64_t, 4>;

constexpr int kSuccess = 0;
constexpr int kBadParameter = 2000;
constexpr int kNotSupported = 3000;
constexpr int kEngines = 3;
constexpr std::int64_t kWorkspace = 4096;  // of the first engine; the next wants twice that

std::string last_error;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
void* stream = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

struct Object {
  DescriptorType type{};
  bool finished = false;
  std::map<int, std::vector<std::byte>> attributes;
  const Object* graph = nullptr;  // of engines
  int engine = 0;

  [[nodiscard]] bool has(Attribute attribute) const {
    return attributes.contains(static_cast<int>(attribute));
  }
  template <typename T>
  [[nodiscard]] std::vector<T> all(Attribute attribute) const {
    const std::vector<std::byte>& bytes = attributes.at(static_cast<int>(attribute));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  template <typename T>
  [[nodiscard]] T entry(Attribute attribute) const {
    return all<T>(attribute).at(0);
  }
  [[nodiscard]] const Object& object(Attribute attribute) const {
    return *entry<const Object*>(attribute);
  }
};

int refused(std::string why, int status) {
  last_error = std::move(why);
  return status;
}

std::size_t bytes_of(int type) {
  switch (static_cast<AttributeType>(type)) {
    case AttributeType::kBoolean:
      return sizeof(bool);
    case AttributeType::kDataType:
    case AttributeType::kHeuristicsMode:
    case AttributeType::kPointwiseMode:
    case AttributeType::kReduction:
      return sizeof(int);
    default:
      return sizeof(void*);  // and std::int64_t
  }
}

/// A tensor's values, dense.
struct Values {
  Dims dims{};
  std::vector<double> data;

  [[nodiscard]] std::size_t index(const Dims& place) const {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      index = index * dims[axis] + (dims[axis] == 1 ? 0 : place[axis]);
    }
    return static_cast<std::size_t>(index);
  }
  [[nodiscard]] double operator()(const Dims& place) const { return data[index(place)]; }
};

template <typename Body>
void for_each(const Dims& dims, Body body) {
  Dims place{};
  for (place[0] = 0; place[0] < dims[0]; ++place[0]) {
    for (place[1] = 0; place[1] < dims[1]; ++place[1]) {
      for (place[2] = 0; place[2] < dims[2]; ++place[2]) {
        for (place[3] = 0; place[3] < dims[3]; ++place[3]) {
          body(place);
        }
      }
    }
  }
}

class Execution {
 public:
  explicit Execution(const Object& pack) {
    const auto ids = pack.all<std::int64_t>(Attribute::kVariantPackIds);
    const auto pointers = pack.all<void*>(Attribute::kVariantPackPointers);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      pointers_[ids[i]] = static_cast<std::byte*>(pointers[i]);
    }
  }

  void run(const Object& operation) {
    switch (operation.type) {
      case DescriptorType::kMatmulOperation:
        multiply(operation);
        break;
      case DescriptorType::kReductionOperation:
        reduce(operation);
        break;
      default:
        pointwise(operation);
    }
  }

 private:
  static Dims dims_of(const Object& tensor, Attribute attribute) {
    const auto values = tensor.all<std::int64_t>(attribute);
    return {values[0], values[1], values[2], values[3]};
  }
  static std::int64_t offset(const Object& tensor, const Dims& place) {
    const Dims strides = dims_of(tensor, Attribute::kTensorStrides);
    std::int64_t sum = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      sum += place[axis] * strides[axis];
    }
    return sum;
  }

  static double load(DataType type, const std::byte* data, std::int64_t index) {
    const auto read = [&](auto value) {
      std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof value), sizeof value);
      return value;
    };
    switch (type) {
      case DataType::kF16:
        return fovea::to_float(read(fovea::Float16{}));
      case DataType::kBF16:
        return fovea::to_float(read(fovea::BFloat16{}));
      case DataType::kI32:
        return read(std::int32_t{});
      default:
        return read(float{});
    }
  }

  Values read(const Object& tensor) {
    const auto id = tensor.entry<std::int64_t>(Attribute::kTensorId);
    if (const auto found = computed_.find(id); found != computed_.end()) {
      return found->second;
    }
    Values values{.dims = dims_of(tensor, Attribute::kTensorDimensions), .data = {}};
    for_each(values.dims, [&](const Dims& place) {
      values.data.push_back(load(tensor.entry<DataType>(Attribute::kTensorDataType),
                                 pointers_.at(id), offset(tensor, place)));
    });
    return values;
  }

  void write(const Object& tensor, Values values) {
    const auto id = tensor.entry<std::int64_t>(Attribute::kTensorId);
    if (tensor.has(Attribute::kTensorIsVirtual)) {
      computed_[id] = std::move(values);
      return;
    }
    const bool bf16 = tensor.entry<DataType>(Attribute::kTensorDataType) == DataType::kBF16;
    for_each(values.dims, [&](const Dims& place) {
      const auto value = static_cast<float>(values(place));
      const std::uint16_t bits =
          bf16 ? fovea::to_bfloat16(value).bits : fovea::to_float16(value).bits;
      std::memcpy(pointers_.at(id) + offset(tensor, place) * 2, &bits, sizeof bits);
    });
  }

  static Values shaped(const Object& tensor) {
    Values values{.dims = dims_of(tensor, Attribute::kTensorDimensions), .data = {}};
    std::int64_t count = 1;
    for (const std::int64_t dim : values.dims) {
      count *= dim;
    }
    values.data.resize(static_cast<std::size_t>(count));
    return values;
  }

  void multiply(const Object& operation) {
    const Values a = read(operation.object(Attribute::kMatmulOperationA));
    const Values b = read(operation.object(Attribute::kMatmulOperationB));
    const Object& to = operation.object(Attribute::kMatmulOperationC);
    Values c = shaped(to);
    const std::int64_t heads_a_pair = a.dims[1] / b.dims[1];
    for_each(c.dims, [&](const Dims& place) {
      for (std::int64_t k = 0; k < a.dims[3]; ++k) {
        c.data[c.index(place)] += a({place[0], place[1], place[2], k}) *
                                  b({place[0], place[1] / heads_a_pair, k, place[3]});
      }
    });
    write(to, std::move(c));
  }

  void reduce(const Object& operation) {
    const Values x = read(operation.object(Attribute::kReductionOperationX));
    const Object& to = operation.object(Attribute::kReductionOperationY);
    const bool sum = operation.object(Attribute::kReductionOperationDescriptor)
                         .entry<Reduction>(Attribute::kReductionOperator) == Reduction::kSum;
    Values y = shaped(to);
    std::ranges::fill(y.data, sum ? 0.0 : -HUGE_VAL);
    for_each(x.dims, [&](const Dims& place) {
      double& into = y.data[y.index(place)];
      into = sum ? into + x(place) : std::max(into, x(place));
    });
    write(to, std::move(y));
  }

  void pointwise(const Object& operation) {
    const Object& how = operation.object(Attribute::kPointwiseOperationDescriptor);
    const auto mode = how.entry<PointwiseMode>(Attribute::kPointwiseMode);
    const Values x = read(operation.object(Attribute::kPointwiseOperationX));
    const Values b = operation.has(Attribute::kPointwiseOperationB)
                         ? read(operation.object(Attribute::kPointwiseOperationB))
                         : x;
    const Values t = operation.has(Attribute::kPointwiseOperationT)
                         ? read(operation.object(Attribute::kPointwiseOperationT))
                         : x;
    const Object& to = operation.object(Attribute::kPointwiseOperationY);
    Values y = shaped(to);
    for_each(y.dims, [&](const Dims& place) {
      double& value = y.data[y.index(place)];
      switch (mode) {
        case PointwiseMode::kAdd:
          value = x(place) + b(place);
          break;
        case PointwiseMode::kMultiply:
          value = x(place) * b(place);
          break;
        case PointwiseMode::kDivide:
          value = x(place) / b(place);
          break;
        case PointwiseMode::kSubtract:
          value = x(place) - b(place);
          break;
        case PointwiseMode::kExp:
          value = std::exp(x(place));
          break;
        case PointwiseMode::kLog:
          value = std::log(x(place));
          break;
        case PointwiseMode::kGreaterOrEqual:
          value = x(place) >= b(place) ? 1.0 : 0.0;
          break;
        case PointwiseMode::kIndex:
          value = static_cast<double>(
              place[static_cast<std::size_t>(how.entry<std::int64_t>(Attribute::kPointwiseAxis))]);
          break;
        case PointwiseMode::kSelect:
          value = t(place) != 0.0 ? x(place) : b(place);
          break;
      }
    });
    write(to, std::move(y));
  }

  std::map<std::int64_t, std::byte*> pointers_;
  std::map<std::int64_t, Values> computed_;
};

Object& object(void* handle) {
  return *static_cast<Object*>(handle);
}

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  return static_cast<std::size_t>(number("FAKE_CUDNN_VERSION", 91900));
}
const char* cudnnGetErrorString(int status) {
  return status == kNotSupported ? "FAKE_NOT_SUPPORTED" : "FAKE_BAD_PARAMETER";
}
void cudnnGetLastErrorString(char* message, std::size_t bytes) {
  message[last_error.copy(message, bytes - 1)] = '\0';
}
int cudnnCreate(void** handle) {
  *handle = &last_error;
  return kSuccess;
}
int cudnnDestroy(void* /*handle*/) {
  return kSuccess;
}
int cudnnSetStream(void* /*handle*/, void* to) {
  stream = to;
  return kSuccess;
}
int cudnnBackendCreateDescriptor(int type, void** made) {
  *made = new Object{.type = static_cast<DescriptorType>(type), .attributes = {}};
  return kSuccess;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete &object(descriptor);
  return kSuccess;
}

int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, std::int64_t count,
                             const void* values) {
  if (object(descriptor).finished) {
    return refused("finished already", kBadParameter);
  }
  const auto* const bytes = static_cast<const std::byte*>(values);
  object(descriptor).attributes[attribute] = {
      bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)};
  return kSuccess;
}

int cudnnBackendFinalize(void* descriptor) {
  Object& entry = object(descriptor);
  if (entry.type == DescriptorType::kOperationGraph &&
      !entry.has(Attribute::kOperationGraphOperations)) {
    return refused("no operations", kBadParameter);
  }
  if (entry.type == DescriptorType::kExecutionPlan &&
      entry.object(Attribute::kPlanEngineConfig).engine < number("FAKE_CUDNN_REFUSALS", 0)) {
    return refused(
        "{engine}\nWarning: X; Reason: this engine refuses\nWarning: X; Reason: finalize()\n",
        kNotSupported);
  }
  entry.finished = true;
  return kSuccess;
}

int cudnnBackendGetAttribute(void* descriptor, int attribute, int /*type*/, std::int64_t wanted,
                             std::int64_t* count, void* values) {
  const Object& entry = object(descriptor);
  if (static_cast<Attribute>(attribute) == Attribute::kPlanWorkspaceBytes) {
    *static_cast<std::int64_t*>(values) =
        kWorkspace * (entry.object(Attribute::kPlanEngineConfig).engine + 1);
    *count = 1;
    return kSuccess;
  }
  // So does NVIDIA's: it knows attention by all its operations.
  const auto operations = entry.object(Attribute::kHeuristicsOperationGraph)
                              .all<const Object*>(Attribute::kOperationGraphOperations);
  if (std::ranges::none_of(operations, [](const Object* operation) {
        return operation->has(Attribute::kPointwiseOperationDescriptor) &&
               operation->object(Attribute::kPointwiseOperationDescriptor)
                       .entry<PointwiseMode>(Attribute::kPointwiseMode) == PointwiseMode::kLog;
      })) {
    *count = 0;
    return refused("not the pattern of attention", kSuccess);
  }
  *count = kEngines;
  for (int engine = 0; engine < std::min<std::int64_t>(wanted, kEngines); ++engine) {
    Object& into = *static_cast<Object**>(values)[engine];
    into.graph = &entry.object(Attribute::kHeuristicsOperationGraph);
    into.engine = engine;
  }
  return kSuccess;
}

int cudnnBackendExecute(void* /*handle*/, void* plan, void* pack) {
  if (stream == nullptr || object(pack).entry<void*>(Attribute::kVariantPackWorkspace) == nullptr) {
    return refused("no stream or no workspace", kBadParameter);
  }
  Execution execution(object(pack));
  const Object& graph = *object(plan).object(Attribute::kPlanEngineConfig).graph;
  for (const Object* operation : graph.all<const Object*>(Attribute::kOperationGraphOperations)) {
    execution.run(*operation);
  }
  return kSuccess;
}

}  // extern "C"
