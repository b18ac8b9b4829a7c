// oneDNN primitives with bias and epilogue fused, always in the precision that was asked.
#include "cpu/matmul.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "cpu/isa.hpp"

namespace fovea::cpu {
namespace {

using dnnl::memory;

// Rows that the packed layout is asked for; oneDNN's choice depends on the columns alone.
constexpr std::int64_t kLayoutRows = 784;

// Without AVX-512 the matrix products of oneDNN add up in an order that depends on how many rows
// there are. Its convolutions of one pixel do not: they are used for packed weights there.
dnnl::convolution_forward::primitive_desc one_pixel(const dnnl::engine& engine, std::int64_t rows,
                                                    std::int64_t in, std::int64_t out,
                                                    const memory::desc& weights,
                                                    const dnnl::primitive_attr& attr) {
  constexpr auto kF32 = memory::data_type::f32;
  const memory::desc input({1, in, rows, 1}, kF32, memory::format_tag::nhwc);
  const memory::desc output({1, out, rows, 1}, kF32, memory::format_tag::nhwc);
  const memory::desc bias({out}, kF32, memory::format_tag::a);
  return {{dnnl::prop_kind::forward_inference,
           dnnl::algorithm::convolution_direct,
           input,
           weights,
           bias,
           output,
           {1, 1},
           {0, 0},
           {0, 0}},
          attr,
          engine};
}

/// Which of a layout's dimensions are the columns of B.
int column_dimension(const memory::desc& layout) {
  return layout.data.ndims == 2 ? 1 : 0;
}

std::int64_t column_block(const memory::desc& layout) {
  const auto& blocking = layout.data.format_desc.blocking;
  std::int64_t block = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    block *= blocking.inner_idxs[i] == column_dimension(layout) ? blocking.inner_blks[i] : 1;
  }
  return block;
}

memory::data_type to_dnnl(DType type) {
  return type == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::primitive_attr attributes(ops::Epilogue epilogue) {
  dnnl::post_ops post_ops;
  if (epilogue == ops::Epilogue::kGeluTanh) {
    post_ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
  } else if (epilogue == ops::Epilogue::kResidual) {
    post_ops.append_sum(1.0F);
  }
  dnnl::primitive_attr attr;
  attr.set_post_ops(post_ops);
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

/// `whole` cut down to its first `out` columns: strides stay, for blocks of columns are outermost
/// in a blocked layout, and rows keep their distance in a plain one.
memory::desc cut_columns(const memory::desc& whole, std::int64_t out) {
  memory::desc cut = whole;
  const int dimension = column_dimension(whole);
  cut.data.dims[dimension] = out;
  cut.data.padded_dims[dimension] = divide_up(out, column_block(whole)) * column_block(whole);
  return cut;
}

}  // namespace

MatmulCache::MatmulCache()
    : engine_(dnnl::engine::kind::cpu, 0), convolves_(!isa_name().starts_with("avx512")) {}

dnnl::memory::desc MatmulCache::packed_layout(std::int64_t in, std::int64_t out, DType type) const {
  if (convolves_) {
    const memory::desc any({out, in, 1, 1}, memory::data_type::f32, memory::format_tag::any);
    return one_pixel(engine_, kLayoutRows, in, out, any, attributes(ops::Epilogue::kNone))
        .weights_desc();
  }
  const auto data_type = to_dnnl(type);
  const dnnl::matmul::desc desc({{kLayoutRows, in}, data_type, memory::format_tag::ab},
                                {{in, out}, data_type, memory::format_tag::any},
                                {{1, out}, memory::data_type::f32, memory::format_tag::ab},
                                {{kLayoutRows, out}, data_type, memory::format_tag::ab});
  return dnnl::matmul::primitive_desc(desc, attributes(ops::Epilogue::kNone), engine_)
      .weights_desc();
}

std::size_t MatmulCache::size() const {
  const std::shared_lock lock(mutex_);
  return made_.size();
}

const Matmul& MatmulCache::get(const MatmulShape& shape) {
  {
    const std::shared_lock lock(mutex_);
    const auto found = made_.find(shape);
    if (found != made_.end()) {
      return *found->second;
    }
  }
  const std::unique_lock lock(mutex_);
  auto& place = made_[shape];
  if (!place) {
    place = make(shape);
  }
  return *place;
}

std::unique_ptr<const Matmul> MatmulCache::make(const MatmulShape& shape) const {
  auto matmul = std::make_unique<Matmul>();
  const auto input_type = to_dnnl(shape.input);
  matmul->input = {{shape.rows, shape.in}, input_type, memory::dims{shape.input_stride, 1}};
  matmul->output = {
      {shape.rows, shape.out}, to_dnnl(shape.output), memory::dims{shape.output_stride, 1}};
  if (shape.b_row_stride == 0) {
    matmul->b = cut_columns(packed_layout(shape.in, shape.packed_out, shape.input), shape.out);
  } else {
    matmul->b = {
        {shape.in, shape.out}, input_type, memory::dims{shape.b_row_stride, shape.b_column_stride}};
  }
  if (shape.bias) {
    matmul->bias = {{1, shape.out}, memory::data_type::f32, memory::format_tag::ab};
  }
  try {
    if (convolves_ && shape.b_row_stride == 0) {
      const auto primitive = one_pixel(engine_, shape.rows, shape.in, shape.out, matmul->b,
                                       attributes(shape.epilogue));
      matmul->input = primitive.src_desc();
      matmul->output = primitive.dst_desc();
      matmul->bias = primitive.bias_desc();
      matmul->scratchpad = primitive.scratchpad_desc();
      matmul->primitive = dnnl::convolution_forward(primitive);
      return matmul;
    }
    const auto desc =
        shape.bias ? dnnl::matmul::desc(matmul->input, matmul->b, matmul->bias, matmul->output)
                   : dnnl::matmul::desc(matmul->input, matmul->b, matmul->output);
    const dnnl::matmul::primitive_desc primitive(desc, attributes(shape.epilogue), engine_);
    matmul->scratchpad = primitive.scratchpad_desc();
    matmul->primitive = dnnl::matmul(primitive);
    if (std::string_view(primitive.impl_info_str()).starts_with("ref")) {
      fail("oneDNN has no kernel but its reference for a product [{}, {}] x [{}, {}], {} -> {}",
           shape.rows, shape.in, shape.in, shape.out, to_string(shape.input),
           to_string(shape.output));
    }
  } catch (const dnnl::error& error) {
    fail("oneDNN makes no product [{}, {}] x [{}, {}], {} -> {}: {}", shape.rows, shape.in,
         shape.in, shape.out, to_string(shape.input), to_string(shape.output), error.what());
  }
  return matmul;
}

PackedWeights::PackedWeights(const MatmulCache& cache, const ops::LinearWeights& weights,
                             DType type)
    : in_(weights.in), out_(weights.out), type_(type), bias_(weights.bias.size()) {
  std::ranges::copy(weights.bias, bias_.data());
  const memory::desc layout = cache.packed_layout(in_, out_, type);
  const memory::desc given =
      layout.data.ndims == 2
          ? memory::desc({in_, out_}, memory::data_type::f32, memory::format_tag::ba)
          : memory::desc({out_, in_, 1, 1}, memory::data_type::f32, memory::format_tag::abcd);
  memory_ = PageBuffer(layout.get_size());
  whole_ = memory(layout, cache.engine(), memory_.data());
  // oneDNN takes inputs as pointers to non-const; it only reads them.
  memory source(given, cache.engine(), const_cast<float*>(weights.weight.data()));
  dnnl::stream stream(cache.engine());
  dnnl::reorder(source, whole_).execute(stream, source, whole_);
  stream.wait();
}

const dnnl::memory& PackedWeights::columns(std::int64_t first, std::int64_t columns,
                                           const dnnl::memory::desc& layout) const {
  if (first == 0 && columns == out_) {
    return whole_;
  }
  const std::lock_guard lock(mutex_);
  auto& block = blocks_[{first, columns}];
  if (!block) {
    const std::int64_t width = column_block(layout);
    if (first % width != 0) {
      fail("packed weights cannot be cut at column {}, only at multiples of {}", first, width);
    }
    const std::int64_t offset =
        first / width * layout.data.format_desc.blocking.strides[column_dimension(layout)];
    block = memory(layout, whole_.get_engine(),
                   memory_.data() + static_cast<std::size_t>(offset) * size_of(type_));
  }
  return block;
}

MatmulCaller::Arguments& MatmulCaller::arguments(const Matmul& matmul) {
  const auto [found, added] = arguments_.try_emplace(&matmul);
  Arguments& made = found->second;
  if (added) {
    const dnnl::engine& engine = cache_.engine();
    made.input = memory(matmul.input, engine, nullptr);
    made.b = memory(matmul.b, engine, nullptr);
    made.output = memory(matmul.output, engine, nullptr);
    made.scratchpad = memory(matmul.scratchpad, engine, nullptr);
    if (!matmul.bias.is_zero()) {
      made.bias = memory(matmul.bias, engine, nullptr);
    }
  }
  made.scratchpad.set_data_handle(grown(scratchpad_, matmul.scratchpad.get_size()));
  return made;
}

void MatmulCaller::execute(const Matmul& matmul, const Arguments& arguments, const dnnl::memory& b,
                           bool bias) {
  std::array<dnnl_exec_arg_t, 5> list{{{DNNL_ARG_SRC, arguments.input.get()},
                                       {DNNL_ARG_WEIGHTS, b.get()},
                                       {DNNL_ARG_DST, arguments.output.get()},
                                       {DNNL_ARG_SCRATCHPAD, arguments.scratchpad.get()},
                                       {DNNL_ARG_BIAS, nullptr}}};
  int count = 4;
  if (bias) {
    list[4].memory = arguments.bias.get();
    count = 5;
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(matmul.primitive.get(), stream_.get(), count, list.data());
  if (status != dnnl_success) {
    fail("a matrix product of oneDNN failed with status {}", static_cast<int>(status));
  }
}

void MatmulCaller::call(MatmulShape shape, const PackedWeights& weights, std::int64_t first,
                        const void* input, void* output) {
  shape.in = weights.in();
  shape.packed_out = weights.out();
  shape.bias = true;
  shape.input = weights.type();
  const Matmul& matmul = cache_.get(shape);
  Arguments& made = arguments(matmul);
  // oneDNN takes inputs as pointers to non-const; it only reads them.
  made.input.set_data_handle(const_cast<void*>(input));
  made.output.set_data_handle(output);
  made.bias.set_data_handle(const_cast<float*>(weights.bias() + first));
  execute(matmul, made, weights.columns(first, shape.out, matmul.b), true);
}

void MatmulCaller::call(MatmulShape shape, const void* input, const void* b, void* output,
                        const float* bias) {
  shape.bias = bias != nullptr;
  if (shape.out == 1) {
    shape.b_column_stride = 1;  // nobody follows it, and oneDNN takes a long one for a leading one
  }
  const Matmul& matmul = cache_.get(shape);
  Arguments& made = arguments(matmul);
  made.input.set_data_handle(const_cast<void*>(input));
  made.b.set_data_handle(const_cast<void*>(b));
  made.output.set_data_handle(output);
  if (shape.bias) {
    made.bias.set_data_handle(const_cast<float*>(bias));
  }
  execute(matmul, made, made.b, shape.bias);
}

}  // namespace fovea::cpu
