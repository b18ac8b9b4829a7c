// Implements attention on torch tensors: passes shapes and strides to the C interface.
#include <cmath>
#include <string>

#include "python/native/operator.hpp"

namespace fovea::torch_operators {
namespace {

constexpr const char* kDense = "fovea::attention";
constexpr const char* kVarlen = "fovea::attention_varlen";
constexpr std::int64_t kVector =
    8;  // elements per vector load on GPUs; strides must be multiples of it

/// Indices of a tensor's axes. Packed sequences have no batch axis.
struct Axes {
  int batch;
  int head;
  int row;
  int dim;
};
constexpr Axes kDenseAxes{.batch = 0, .head = 1, .row = 2, .dim = 3};
constexpr Axes kVarlenAxes{.batch = -1, .head = 1, .row = 0, .dim = 2};

/// Returns the stride of an axis, or a valid one when its size is 1, as kernels check all strides.
std::int64_t axis_stride(const Tensor& tensor, int axis) {
  if (axis < 0 || tensor.size(axis) == 1) {
    return kVector;
  }
  return tensor.stride(axis);
}

fovea_strides axis_strides(const Tensor& tensor, const Axes& axes) {
  return {.batch = axis_stride(tensor, axes.batch),
          .head = axis_stride(tensor, axes.head),
          .row = axis_stride(tensor, axes.row)};
}

/// Returns the tensor itself if the kernels support its layout, or else a dense copy.
Tensor with_supported_layout(const Tensor& tensor, const Axes& axes) {
  const fovea_strides strides = axis_strides(tensor, axes);
  bool reads = tensor.size(axes.dim) == 1 || tensor.stride(axes.dim) == 1;
  if (tensor.is_cuda()) {
    for (const std::int64_t stride : {strides.batch, strides.head, strides.row}) {
      reads = reads && stride > 0 && stride % kVector == 0;
    }
    reads = reads && is_aligned(tensor);
  }
  return reads ? tensor : dense_copy(tensor);
}

void check_operands(const char* name, const Tensor& q, const Tensor& k, const Tensor& v,
                    const Axes& axes, std::int64_t level) {
  const std::int64_t rank = axes.dim + 1;
  const auto shapes = [&] {
    return " (q " + shape_text(q) + ", k " + shape_text(k) + ", v " + shape_text(v) + ")";
  };
  if (q.dim() != rank || k.dim() != rank || v.dim() != rank) {
    fail(std::string(name) + ": q, k and v must have " + std::to_string(rank) + " dimensions" +
         shapes());
  }
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (k.size(axis) != v.size(axis)) {
      fail(std::string(name) + ": k and v must have the same shape" + shapes());
    }
  }
  if (q.size(axes.dim) != k.size(axes.dim) ||
      (axes.batch >= 0 && q.size(axes.batch) != k.size(axes.batch))) {
    fail(std::string(name) + ": q and k must agree in batch and head dimension" + shapes());
  }
  const std::int32_t type = element_type(name, q);
  if (element_type(name, k) != type || element_type(name, v) != type) {
    fail(std::string(name) + ": q, k and v must be of the same type");
  }
  if (level < FOVEA_LEVEL_AUTO || level > FOVEA_LEVEL_WGMMA) {
    fail(std::string(name) + ": invalid level " + std::to_string(level));
  }
  require_one_device(name, {&q, &k, &v});
}

double softmax_scale(std::optional<double> scale, std::int64_t head_dim) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

/// Returns the arguments that dense and varlen calls share. `q`, `k` and `v` are replaced by copies
/// where the kernels do not support their layout.
fovea_attention_args make_args(const char* name, Tensor& q, Tensor& k, Tensor& v, const Axes& axes,
                               double scale, std::int64_t level) {
  q = with_supported_layout(q, axes);
  k = with_supported_layout(k, axes);
  v = with_supported_layout(v, axes);
  fovea_attention_args args{};
  args.q = q.data_ptr();
  args.k = k.data_ptr();
  args.v = v.data_ptr();
  args.q_strides = axis_strides(q, axes);
  args.k_strides = axis_strides(k, axes);
  args.v_strides = axis_strides(v, axes);
  args.heads = q.size(axes.head);
  args.kv_heads = k.size(axes.head);
  args.head_dim = q.size(axes.dim);
  args.scale = scale;
  args.type = element_type(name, q);
  args.level = static_cast<std::int32_t>(level);
  return args;
}

Tensor attention(Tensor q, Tensor k, Tensor v, bool is_causal, std::optional<double> scale,
                 std::int64_t level) {
  reject_gradients(kDense, {&q, &k, &v});
  check_operands(kDense, q, k, v, kDenseAxes, level);
  const std::int64_t batch = q.size(0);
  const std::int64_t heads = q.size(1);
  const std::int64_t queries = q.size(2);
  const std::int64_t dim = q.size(3);
  // The memory order is (batch, length, heads, d), so that the next projection needs no copy.
  const std::vector<std::int64_t> sizes{batch, heads, queries, dim};
  const std::vector<std::int64_t> strides{queries * heads * dim, dim, heads * dim, 1};
  Tensor output = empty(q, sizes, strides, torch_type(q));
  const double factor = softmax_scale(scale, dim);
  if (output.numel() == 0) {
    return output;
  }
  if (k.size(2) == 0) {
    fail(std::string(kDense) + ": k and v must have at least one key");
  }
  const Place place(q);
  fovea_attention_args args = make_args(kDense, q, k, v, kDenseAxes, factor, level);
  args.o = output.data_ptr();
  args.o_strides = {.batch = strides[0], .head = strides[1], .row = strides[2]};
  args.batch = batch;
  args.queries = queries;
  args.keys = k.size(2);
  args.causal = is_causal ? FOVEA_CAUSAL_FIRST : FOVEA_CAUSAL_NONE;
  call("fovea_attention", args, place);
  return output;
}

/// Checks that offsets of sequences are int32 and dense. Their values, from which addresses are
/// computed, are checked only on the CPU, because on a GPU the check would synchronise.
void check_offsets(const Tensor& offsets, const Tensor& tensor, const char* what) {
  if (torch_type(offsets) != aoti_torch_dtype_int32() || offsets.dim() != 1 ||
      offsets.size(0) < 2 || !offsets.is_contiguous()) {
    fail(std::string(kVarlen) + ": " + what + " must be int32 and dense, of shape [batch + 1]");
  }
  if (offsets.is_cuda()) {
    return;
  }
  const auto* const values = static_cast<const std::int32_t*>(offsets.data_ptr());
  const std::int64_t count = offsets.size(0);
  bool ordered = values[0] == 0 && values[count - 1] == tensor.size(0);
  for (std::int64_t i = 1; i < count; ++i) {
    ordered = ordered && values[i] >= values[i - 1];
  }
  if (!ordered) {
    fail(std::string(kVarlen) + ": " + what + " must rise from 0 to the number of rows, " +
         std::to_string(tensor.size(0)));
  }
}

Tensor attention_varlen(Tensor q, Tensor k, Tensor v, const Tensor& cu_seqlens_q,
                        const Tensor& cu_seqlens_k, std::int64_t max_q, std::int64_t max_k,
                        bool is_causal, std::optional<double> scale, std::int64_t level) {
  reject_gradients(kVarlen, {&q, &k, &v});
  check_operands(kVarlen, q, k, v, kVarlenAxes, level);
  require_one_device(kVarlen, {&q, &cu_seqlens_q, &cu_seqlens_k});
  check_offsets(cu_seqlens_q, q, "cu_seqlens_q");
  check_offsets(cu_seqlens_k, k, "cu_seqlens_k");
  if (cu_seqlens_q.size(0) != cu_seqlens_k.size(0)) {
    fail(std::string(kVarlen) + ": cu_seqlens_q and cu_seqlens_k must have the same length");
  }
  const double factor = softmax_scale(scale, q.size(2));
  Tensor output = empty(q, tensor_sizes(q));
  if (output.numel() == 0) {
    return output;
  }
  if (max_q < 1 || max_k < 1) {
    fail(std::string(kVarlen) +
         ": max_q and max_k must be the lengths of the longest sequences, at least 1");
  }
  const Place place(q);
  fovea_attention_args args = make_args(kVarlen, q, k, v, kVarlenAxes, factor, level);
  args.o = output.data_ptr();
  args.o_strides = axis_strides(output, kVarlenAxes);
  args.batch = cu_seqlens_q.size(0) - 1;
  args.queries = max_q;
  args.keys = max_k;
  args.causal = is_causal ? FOVEA_CAUSAL_LAST : FOVEA_CAUSAL_NONE;
  args.cu_seqlens_q = static_cast<const std::int32_t*>(cu_seqlens_q.data_ptr());
  args.cu_seqlens_k = static_cast<const std::int32_t*>(cu_seqlens_k.data_ptr());
  call("fovea_attention", args, place);
  return output;
}

}  // namespace

FOVEA_TORCH_OPERATOR(
    attention,
    "attention(Tensor q, Tensor k, Tensor v, bool is_causal=False, float? scale=None, "
    "int level=0) -> Tensor")
FOVEA_TORCH_OPERATOR(
    attention_varlen,
    "attention_varlen(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, "
    "int max_q, int max_k, bool is_causal=False, float? scale=None, int level=0) -> Tensor")

}  // namespace fovea::torch_operators
