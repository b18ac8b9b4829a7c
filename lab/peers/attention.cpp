// cuDNN as a peer of the attention kernels: builds an operation graph for attention, and runs it
// with the first engine that supports it.
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "gpu/device/device.hpp"
#include "lab/cards/attention_workload.hpp"
#include "lab/peers/cudnn.hpp"
#include "ops/attention/op.hpp"

namespace fovea::lab {
namespace {

using cudnn::Api;
using cudnn::Attribute;
using cudnn::DataType;
using cudnn::Descriptor;
using cudnn::DescriptorType;
using cudnn::PointwiseMode;
using cudnn::Reduction;

/// Ids of the tensors in the variant pack; virtual tensors have larger ids.
enum TensorId : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kScale,
  kMasked,
  kKeys,
  kQueries,
  kFirstVirtual
};

using Dims = std::array<std::int64_t, 4>;
constexpr Dims kScalarDims = {1, 1, 1, 1};
constexpr std::int64_t kAlignment = 16;
constexpr std::int64_t kRowAxis = 2;
constexpr std::int64_t kColumnAxis = 3;

Dims dense_strides(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

DataType data_type(DType type) {
  switch (type) {
    case DType::kF16:
      return DataType::kF16;
    case DType::kBF16:
      return DataType::kBF16;
    default:
      fail("cuDNN: attention in {} is not supported", to_string(type));
  }
}

/// Parameters of a pointwise operation.
struct Pointwise {
  DataType precision = DataType::kF32;
  std::int64_t axis = -1;                 // for kIndex
  const Descriptor* condition = nullptr;  // for kSelect
};

/// Builds the operation graph of a problem. Since the engines recognise attention by its pattern,
/// the softmax must consist of exactly these operations, including the logarithm of the sums, which
/// is not used.
class AttentionGraph {
 public:
  AttentionGraph(const Api& api, cudnn::Handle library, const ops::AttentionProblem& problem)
      : api_(api),
        problem_(problem),
        score_dims_{problem.batch, problem.heads, problem.queries, problem.keys},
        row_dims_{problem.batch, problem.heads, problem.queries, 1},
        graph_(api, DescriptorType::kOperationGraph) {
    build();
    graph_.set(Attribute::kOperationGraphHandle, library);
    graph_.set(Attribute::kOperationGraphOperations, cudnn::AttributeType::kDescriptor,
               std::ssize(operations_), static_cast<const void*>(operations_.data()));
    graph_.finalize();
  }

  [[nodiscard]] const Descriptor& descriptor() const { return graph_; }

 private:
  void build() {
    const DataType type = data_type(problem_.type);
    const std::int64_t width = problem_.head_dim;
    const Dims query_dims = {problem_.batch, problem_.heads, problem_.queries, width};
    const Dims key_dims = {problem_.batch, problem_.key_heads(), problem_.keys, width};
    const auto strides = [](const ops::AttentionStrides& lengths) {
      return Dims{lengths.batch, lengths.head, lengths.row, 1};
    };
    const Descriptor& q = tensor(kQ, type, query_dims, strides(problem_.q));
    // K^T is the same memory as K with the last two dimensions swapped.
    const Descriptor& k =
        tensor(kK, type, {problem_.batch, problem_.key_heads(), width, problem_.keys},
               {problem_.k.batch, problem_.k.head, 1, problem_.k.row});
    const Descriptor& v = tensor(kV, type, key_dims, strides(problem_.v));
    const Descriptor& o = tensor(kO, type, query_dims, strides(problem_.o));

    const Descriptor& products = virtual_tensor(score_dims_);
    multiply(q, k, products);
    const Descriptor& scaled = virtual_tensor(score_dims_);
    pointwise(PointwiseMode::kMultiply, products, &scalar(kScale, DataType::kF32), scaled);
    const Descriptor& scores = problem_.causal ? masked(scaled) : scaled;
    const Descriptor& weights = softmax(scores, type);
    multiply(weights, v, o);
  }

  /// Masks the `scores` of keys that the query must not attend to.
  const Descriptor& masked(const Descriptor& scores) {
    const auto index = [&](std::int64_t axis) -> const Descriptor& {
      const Descriptor& made = virtual_tensor(score_dims_, DataType::kI32);
      pointwise(PointwiseMode::kIndex, scores, nullptr, made, {.axis = axis});
      return made;
    };
    const Descriptor* row = &index(kRowAxis);
    const Descriptor& column = index(kColumnAxis);
    if (problem_.keys != problem_.queries) {
      for (const auto& [mode, id] :
           {std::pair{PointwiseMode::kAdd, kKeys}, std::pair{PointwiseMode::kSubtract, kQueries}}) {
        const Descriptor& moved = virtual_tensor(score_dims_, DataType::kI32);
        pointwise(mode, *row, &scalar(id, DataType::kI32), moved, {.precision = DataType::kI32});
        row = &moved;
      }
    }
    const Descriptor& visibility = virtual_tensor(score_dims_, DataType::kBoolean);
    pointwise(PointwiseMode::kGreaterOrEqual, *row, &column, visibility,
              {.precision = DataType::kBoolean});
    const Descriptor& selected = virtual_tensor(score_dims_);
    pointwise(PointwiseMode::kSelect, scores, &scalar(kMasked, DataType::kF32), selected,
              {.condition = &visibility});
    return selected;
  }

  const Descriptor& softmax(const Descriptor& scores, DataType type) {
    const Descriptor& max = virtual_tensor(row_dims_);
    reduce(Reduction::kMax, scores, max);
    const Descriptor& below = virtual_tensor(score_dims_);
    pointwise(PointwiseMode::kSubtract, scores, &max, below);
    const Descriptor& exponentials = virtual_tensor(score_dims_);
    pointwise(PointwiseMode::kExp, below, nullptr, exponentials);
    const Descriptor& sum = virtual_tensor(row_dims_);
    reduce(Reduction::kSum, exponentials, sum);
    const Descriptor& logarithm = virtual_tensor(row_dims_);
    pointwise(PointwiseMode::kLog, sum, nullptr, logarithm);
    pointwise(PointwiseMode::kAdd, max, &logarithm, virtual_tensor(row_dims_));
    const Descriptor& weights = virtual_tensor(score_dims_, type);
    pointwise(PointwiseMode::kDivide, exponentials, &sum, weights);
    return weights;
  }

  Descriptor& add(DescriptorType type) { return descriptors_.emplace_back(api_, type); }

  /// Adds a tensor; `flag` is an additional attribute to set.
  const Descriptor& tensor(std::int64_t id, DataType type, const Dims& dims, const Dims& strides,
                           std::optional<Attribute> flag = std::nullopt) {
    Descriptor& made = add(DescriptorType::kTensor);
    made.set(Attribute::kTensorDataType, type);
    made.set_numbers(Attribute::kTensorDimensions, dims);
    made.set_numbers(Attribute::kTensorStrides, strides);
    made.set(Attribute::kTensorId, id);
    made.set(Attribute::kTensorAlignment, kAlignment);
    if (flag) {
      made.set(*flag, true);
    }
    made.finalize();
    return made;
  }

  /// Adds a scalar whose value the host passes with each run.
  const Descriptor& scalar(TensorId id, DataType type) {
    return tensor(id, type, kScalarDims, kScalarDims, Attribute::kTensorIsByValue);
  }

  const Descriptor& virtual_tensor(const Dims& dims, DataType type = DataType::kF32) {
    return tensor(next_id_++, type, dims, dense_strides(dims), Attribute::kTensorIsVirtual);
  }

  void operation(Descriptor& made) {
    made.finalize();
    operations_.push_back(made.handle());
  }

  void multiply(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    Descriptor& how = add(DescriptorType::kMatmul);
    how.set(Attribute::kMatmulPrecision, DataType::kF32);
    how.finalize();
    Descriptor& made = add(DescriptorType::kMatmulOperation);
    made.set(Attribute::kMatmulOperationA, a);
    made.set(Attribute::kMatmulOperationB, b);
    made.set(Attribute::kMatmulOperationC, c);
    made.set(Attribute::kMatmulOperationDescriptor, how);
    operation(made);
  }

  void pointwise(PointwiseMode mode, const Descriptor& x, const Descriptor* b, const Descriptor& y,
                 const Pointwise& parameters = {}) {
    Descriptor& how = add(DescriptorType::kPointwise);
    how.set(Attribute::kPointwiseMode, mode);
    how.set(Attribute::kPointwisePrecision, parameters.precision);
    if (mode == PointwiseMode::kIndex) {
      how.set(Attribute::kPointwiseAxis, parameters.axis);
    }
    how.finalize();
    Descriptor& made = add(DescriptorType::kPointwiseOperation);
    made.set(Attribute::kPointwiseOperationDescriptor, how);
    made.set(Attribute::kPointwiseOperationX, x);
    if (b != nullptr) {
      made.set(Attribute::kPointwiseOperationB, *b);
    }
    if (parameters.condition != nullptr) {
      made.set(Attribute::kPointwiseOperationT, *parameters.condition);
    }
    made.set(Attribute::kPointwiseOperationY, y);
    operation(made);
  }
  /// Reduces along the key dimension, which has length 1 in `y`.
  void reduce(Reduction reduction, const Descriptor& x, const Descriptor& y) {
    Descriptor& how = add(DescriptorType::kReduction);
    how.set(Attribute::kReductionOperator, reduction);
    how.set(Attribute::kReductionPrecision, DataType::kF32);
    how.finalize();
    Descriptor& made = add(DescriptorType::kReductionOperation);
    made.set(Attribute::kReductionOperationDescriptor, how);
    made.set(Attribute::kReductionOperationX, x);
    made.set(Attribute::kReductionOperationY, y);
    operation(made);
  }

  const Api& api_;
  const ops::AttentionProblem& problem_;
  Dims score_dims_;  // (batch, heads, queries, keys)
  Dims row_dims_;    // (batch, heads, queries, 1)
  std::int64_t next_id_ = kFirstVirtual;
  std::deque<Descriptor> descriptors_;  // in a deque, since their addresses must not change
  std::vector<cudnn::Handle> operations_;
  Descriptor graph_;
};

/// Attention for one problem, computed by the first engine from cuDNN's heuristics that supports
/// the problem. Not thread-safe; the calling thread must have used the device before.
class CudnnAttention {
 public:
  /// Throws fovea::Error with the reason if the library is missing, or with cuDNN's message if no
  /// engine supports the problem.
  CudnnAttention(gpu::Device& device, const ops::AttentionProblem& problem)
      : device_(device),
        problem_(problem),
        graph_(api_, library_.get(), problem_),
        plan_(choose()),
        scale_(static_cast<float>(problem.scale)),
        keys_(static_cast<std::int32_t>(problem.keys)),
        queries_(static_cast<std::int32_t>(problem.queries)) {
    const std::int64_t bytes = plan_.number(Attribute::kPlanWorkspaceBytes);
    if (bytes > 0) {
      workspace_ = gpu::DeviceBuffer(device, static_cast<std::size_t>(bytes));
    }
  }

  [[nodiscard]] std::string name() const { return "cuDNN " + cudnn::version_text(api_.version()); }

  /// Enqueues a run into the stream, which may be capturing a graph.
  void run(const ops::AttentionOperands& operands, gpu::Stream& stream) {
    std::vector<std::int64_t> ids = {kQ, kK, kV, kO, kScale};
    std::vector<void*> pointers = {pointer<void>(operands.q), pointer<void>(operands.k),
                                   pointer<void>(operands.v), pointer<void>(operands.o), &scale_};
    const auto add = [&](std::int64_t id, void* value) {
      ids.push_back(id);
      pointers.push_back(value);
    };
    if (problem_.causal) {
      add(kMasked, &masked_);
      if (problem_.keys != problem_.queries) {
        add(kKeys, &keys_);
        add(kQueries, &queries_);
      }
    }
    void* const workspace = pointer<void>(workspace_.address());
    Descriptor pack(api_, DescriptorType::kVariantPack);
    pack.set_numbers(Attribute::kVariantPackIds, ids);
    pack.set(Attribute::kVariantPackPointers, cudnn::AttributeType::kPointer, std::ssize(pointers),
             static_cast<const void*>(pointers.data()));
    pack.set(Attribute::kVariantPackWorkspace, cudnn::AttributeType::kPointer, 1,
             static_cast<const void*>(&workspace));
    pack.finalize();
    cudnn::check(api_, api_.set_stream(library_.get(), device_.native_handle(stream)),
                 "setting the stream");
    cudnn::check(api_, api_.execute(library_.get(), plan_.handle(), pack.handle()),
                 to_string(problem_));
  }

 private:
  /// Returns the plan of the first proposed engine that supports the problem.
  Descriptor choose() {
    Descriptor heuristics(api_, DescriptorType::kHeuristics);
    heuristics.set(Attribute::kHeuristicsOperationGraph, graph_.descriptor());
    heuristics.set(Attribute::kHeuristicsMode, cudnn::HeuristicsMode::kA);
    heuristics.finalize();
    engines_ = heuristics.descriptors(Attribute::kHeuristicsResults, DescriptorType::kEngineConfig);
    std::string refusal = cudnn::last_reason(api_);
    for (const Descriptor& engine : engines_) {
      Descriptor plan(api_, DescriptorType::kExecutionPlan);
      plan.set(Attribute::kPlanHandle, library_.get());
      plan.set(Attribute::kPlanEngineConfig, engine);
      if (plan.try_finalize()) {
        return plan;
      }
      refusal = cudnn::last_reason(api_);
    }
    fail("cuDNN has no engine for {} ({} proposed): {}", to_string(problem_), engines_.size(),
         refusal);
  }

  [[nodiscard]] cudnn::Handle start() const {
    cudnn::Handle handle = nullptr;
    cudnn::check(api_, api_.create(&handle), "starting");
    return handle;
  }

  Api api_ = cudnn::open_api();
  std::unique_ptr<void, int (*)(cudnn::Handle)> library_{start(), api_.destroy};
  gpu::Device& device_;
  ops::AttentionProblem problem_;
  AttentionGraph graph_;
  std::vector<Descriptor> engines_;
  Descriptor plan_;
  gpu::DeviceBuffer workspace_;
  float scale_;
  float masked_ = -std::numeric_limits<float>::infinity();
  std::int32_t keys_;
  std::int32_t queries_;
};

}  // namespace

std::vector<Peer> AttentionWorkload::peers(gpu::KernelCache& kernels,
                                           std::vector<std::string>& missing) const {
  if (problem_.varlen) {
    missing.emplace_back("cuDNN is not measured with sequences of different lengths");
    return {};
  }
  try {
    const auto attention = std::make_shared<CudnnAttention>(kernels.device(), problem_);
    Peer peer;
    peer.name = attention->name();
    peer.run = [this, attention](const Operands& operands, gpu::Stream& run_stream) {
      attention->run(attention_operands(operands), run_stream);
    };
    return {std::move(peer)};
  } catch (const Error& error) {
    missing.emplace_back(error.what());
    return {};
  }
}

}  // namespace fovea::lab
