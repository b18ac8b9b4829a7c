// Our numbers of cuDNN's interface against NVIDIA's, where its header is at hand.
#include "lab/peers/cudnn.hpp"

#if __has_include(<cudnn.h>)
#include <cudnn.h>

namespace fovea::lab {
namespace {

template <typename Ours, typename Theirs>
constexpr bool same(Ours ours, Theirs official) {
  return static_cast<int>(ours) == static_cast<int>(official);
}

using cudnn::Attribute;
using cudnn::AttributeType;
using cudnn::DataType;
using cudnn::DescriptorType;
using cudnn::PointwiseMode;
static_assert(same(DescriptorType::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
static_assert(same(DescriptorType::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
static_assert(same(DescriptorType::kHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
static_assert(same(DescriptorType::kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
static_assert(same(DescriptorType::kPointwiseOperation,
                   CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
static_assert(same(DescriptorType::kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
static_assert(same(DescriptorType::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
static_assert(same(DescriptorType::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
static_assert(same(DescriptorType::kMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR));
static_assert(same(DescriptorType::kMatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
static_assert(same(DescriptorType::kReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
static_assert(same(DescriptorType::kReductionOperation,
                   CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR));
static_assert(same(Attribute::kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE));
static_assert(same(Attribute::kPointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC));
static_assert(same(Attribute::kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS));
static_assert(same(Attribute::kHeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE));
static_assert(same(Attribute::kHeuristicsOperationGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
static_assert(same(Attribute::kHeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS));
static_assert(same(Attribute::kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
static_assert(same(Attribute::kPlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
static_assert(same(Attribute::kPlanWorkspaceBytes, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
static_assert(same(Attribute::kPointwiseOperationDescriptor,
                   CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
static_assert(same(Attribute::kPointwiseOperationX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
static_assert(same(Attribute::kPointwiseOperationB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
static_assert(same(Attribute::kPointwiseOperationY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
static_assert(same(Attribute::kPointwiseOperationT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
static_assert(same(Attribute::kOperationGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
static_assert(same(Attribute::kOperationGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS));
static_assert(same(Attribute::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
static_assert(same(Attribute::kTensorDataType, CUDNN_ATTR_TENSOR_DATA_TYPE));
static_assert(same(Attribute::kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS));
static_assert(same(Attribute::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES));
static_assert(same(Attribute::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID));
static_assert(same(Attribute::kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL));
static_assert(same(Attribute::kTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE));
static_assert(same(Attribute::kVariantPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
static_assert(same(Attribute::kVariantPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
static_assert(same(Attribute::kVariantPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
static_assert(same(Attribute::kMatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE));
static_assert(same(Attribute::kMatmulOperationA, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
static_assert(same(Attribute::kMatmulOperationB, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
static_assert(same(Attribute::kMatmulOperationC, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
static_assert(same(Attribute::kMatmulOperationDescriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC));
static_assert(same(Attribute::kReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR));
static_assert(same(Attribute::kReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE));
static_assert(same(Attribute::kReductionOperationX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
static_assert(same(Attribute::kReductionOperationY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
static_assert(same(Attribute::kReductionOperationDescriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC));
static_assert(same(AttributeType::kHandle, CUDNN_TYPE_HANDLE));
static_assert(same(AttributeType::kDataType, CUDNN_TYPE_DATA_TYPE));
static_assert(same(AttributeType::kBoolean, CUDNN_TYPE_BOOLEAN));
static_assert(same(AttributeType::kInt64, CUDNN_TYPE_INT64));
static_assert(same(AttributeType::kPointer, CUDNN_TYPE_VOID_PTR));
static_assert(same(AttributeType::kHeuristicsMode, CUDNN_TYPE_HEUR_MODE));
static_assert(same(AttributeType::kPointwiseMode, CUDNN_TYPE_POINTWISE_MODE));
static_assert(same(AttributeType::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR));
static_assert(same(AttributeType::kReduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE));
static_assert(same(DataType::kF32, CUDNN_DATA_FLOAT) && same(DataType::kF16, CUDNN_DATA_HALF));
static_assert(same(DataType::kI32, CUDNN_DATA_INT32));
static_assert(same(DataType::kBF16, CUDNN_DATA_BFLOAT16));
static_assert(same(DataType::kBoolean, CUDNN_DATA_BOOLEAN));
static_assert(same(PointwiseMode::kAdd, CUDNN_POINTWISE_ADD));
static_assert(same(PointwiseMode::kMultiply, CUDNN_POINTWISE_MUL));
static_assert(same(PointwiseMode::kDivide, CUDNN_POINTWISE_DIV));
static_assert(same(PointwiseMode::kSubtract, CUDNN_POINTWISE_SUB));
static_assert(same(PointwiseMode::kExp, CUDNN_POINTWISE_EXP));
static_assert(same(PointwiseMode::kLog, CUDNN_POINTWISE_LOG));
static_assert(same(PointwiseMode::kGreaterOrEqual, CUDNN_POINTWISE_CMP_GE));
static_assert(same(PointwiseMode::kIndex, CUDNN_POINTWISE_GEN_INDEX));
static_assert(same(PointwiseMode::kSelect, CUDNN_POINTWISE_BINARY_SELECT));
static_assert(same(cudnn::Reduction::kSum, CUDNN_REDUCE_TENSOR_ADD));
static_assert(same(cudnn::Reduction::kMax, CUDNN_REDUCE_TENSOR_MAX));
static_assert(same(cudnn::HeuristicsMode::kA, CUDNN_HEUR_MODE_A));
static_assert(same(cudnn::kSuccess, CUDNN_STATUS_SUCCESS));

}  // namespace
}  // namespace fovea::lab
#endif
