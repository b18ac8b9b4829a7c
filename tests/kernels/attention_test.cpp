// The attention kernels below wgmma, every one of their tables, on the host: against float64.
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "kernels/attention/mma_attention.cuh"
#include "kernels/attention/mma_small.cuh"
#include "kernels/attention/scalar.cuh"
#include "kernels/variants.hpp"
#include "machine/machine.hpp"
#include "ops/reference/judge.hpp"
#include "ops/reference/rows.hpp"

namespace fovea::attention {
namespace {

namespace reference = ops::reference;

/// A kernel as it is launched.
struct Built {
  std::string name;
  int head_dim = 0;
  int rows = 0;  // of queries, a block
  std::uint32_t threads = 0;
  std::function<void(const PortableParams&)> run;
};

template <typename ElementType, const auto& kTable, std::size_t kPlace>
struct ChoicesOf {
  using Element = ElementType;
  static constexpr auto kTuning = kTable[kPlace].tuning;
};

template <template <typename> typename CfgOf, typename Element, const auto& kTable,
          std::size_t... kPlaces, typename Run>
void add(std::vector<Built>& all, const std::string& level, std::index_sequence<kPlaces...>,
         Run run) {
  const auto one = [&]<std::size_t kPlace>() {
    using Cfg = CfgOf<ChoicesOf<Element, kTable, kPlace>>;
    all.push_back({level + ' ' + std::to_string(kPlace), Cfg::kColumns, Cfg::kRows, Cfg::kThreads,
                   [run](const PortableParams& params) { run.template operator()<Cfg>(params); }});
  };
  (one.template operator()<kPlaces>(), ...);
}

/// Tuning parameters that no kernel of the program has: whatever candidates may have has to be
/// right.
struct SmallCandidate {
  MmaSmallTuning tuning;
};
inline constexpr std::array kSmallCandidates = {
    SmallCandidate{{.head_dim = 64,
                    .ctas_per_sm = 8,
                    .warps = 1,
                    .kv_tile = 16,
                    .stages = 2,
                    .score_keys = 16,
                    .held_queries = 0}},
    SmallCandidate{{.head_dim = 64,
                    .ctas_per_sm = 4,
                    .warps = 8,
                    .kv_tile = 64,
                    .stages = 3,
                    .score_keys = 32,
                    .held_queries = 1}},
    SmallCandidate{{.head_dim = 128,
                    .ctas_per_sm = 2,
                    .warps = 4,
                    .kv_tile = 48,
                    .stages = 4,
                    .score_keys = 48,
                    .held_queries = 0}},
    SmallCandidate{{.head_dim = 128,
                    .ctas_per_sm = 1,
                    .warps = 2,
                    .kv_tile = 128,
                    .stages = 2,
                    .score_keys = 64,
                    .held_queries = 1}},
};

template <typename Element>
std::vector<Built> kernels() {
  std::vector<Built> all;
  add<MmaCfg, Element, gpu::kMmaVariants>(
      all, "mma", std::make_index_sequence<gpu::kMmaVariants.size()>(),
      []<typename Cfg>(const auto& params) { mma_attention<Cfg>(params); });
  add<MmaSmallCfg, Element, gpu::kMmaSmallVariants>(
      all, "mma_small", std::make_index_sequence<gpu::kMmaSmallVariants.size()>(),
      []<typename Cfg>(const auto& params) { mma_small<Cfg>(params); });
  add<MmaSmallCfg, Element, kSmallCandidates>(
      all, "mma_small candidate", std::make_index_sequence<kSmallCandidates.size()>(),
      []<typename Cfg>(const auto& params) { mma_small<Cfg>(params); });
  add<ScalarCfg, Element, gpu::kScalarVariants>(
      all, "scalar", std::make_index_sequence<gpu::kScalarVariants.size()>(),
      []<typename Cfg>(const auto& params) { scalar<Cfg>(params); });
  return all;
}

struct Problem {
  int heads = 1;
  int key_heads = 1;
  int head_dim = 64;
  bool causal = false;
  bool varlen = false;
  std::vector<int> queries;  // of each sequence
  std::vector<int> keys;
  bool growing = false;  // later keys are longer, so that maxima grow, by little and by much
};

/// Rows (all sequences, heads, head_dim) of 16 bits, at 16-byte aligned addresses; rows of NaN
/// follow them, for kernels that read too far.
struct Rows {
  static constexpr int kBeyond = 64;
  int heads, width;
  std::vector<std::uint64_t> storage;

  Rows(int rows, int head_count, int head_dim)
      : heads(head_count),
        width(head_dim),
        storage(static_cast<std::size_t>(rows + kBeyond) * head_count * head_dim / 4 + 2,
                std::numeric_limits<std::uint64_t>::max()) {}
  [[nodiscard]] std::uint16_t* data() {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(storage.data());
    return reinterpret_cast<std::uint16_t*>(bytes + reinterpret_cast<std::uintptr_t>(bytes) % 16);
  }
  [[nodiscard]] std::uint16_t& at(int row, int head, int column) {
    return data()[(static_cast<std::size_t>(row) * heads + head) * width + column];
  }
  [[nodiscard]] PortableOperand operand(int sequence_rows) {
    return {reinterpret_cast<std::uint8_t*>(data()), std::int64_t{sequence_rows} * heads * width,
            std::int64_t{heads} * width, width};
  }
};

/// Runs the kernel and holds each head of each sequence against float64.
template <typename Stored, typename Encode>
void check(const Built& kernel, const Problem& problem, machine::Arrival arrival, Encode encode,
           DType type) {
  std::vector<int> cu_seqlens_q = {0};
  std::vector<int> cu_seqlens_k = {0};
  std::partial_sum(problem.queries.begin(), problem.queries.end(),
                   std::back_inserter(cu_seqlens_q));
  std::partial_sum(problem.keys.begin(), problem.keys.end(), std::back_inserter(cu_seqlens_k));
  const int batch = static_cast<int>(problem.queries.size());
  Rows q(cu_seqlens_q.back(), problem.heads, problem.head_dim);
  Rows k(cu_seqlens_k.back(), problem.key_heads, problem.head_dim);
  Rows v(cu_seqlens_k.back(), problem.key_heads, problem.head_dim);
  Rows o(cu_seqlens_q.back(), problem.heads, problem.head_dim);
  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0.2F, 1.4F);
  for (Rows* const rows : {&q, &k, &v}) {
    const std::size_t count =
        (rows->storage.size() - 2) * 4 - std::size_t{Rows::kBeyond} * rows->heads * rows->width;
    std::generate_n(rows->data(), count, [&] { return encode(normal(engine)).bits; });
  }
  if (problem.growing) {
    for (int row = 0; row < cu_seqlens_k.back(); ++row) {
      for (int i = 0; i < problem.key_heads * problem.head_dim; ++i) {
        std::uint16_t& bits = k.at(row, 0, i);
        bits = encode(to_float(Stored{bits}) * (1.0F + static_cast<float>(row) / 32.0F)).bits;
      }
    }
  }
  std::ranges::fill(o.storage, std::numeric_limits<std::uint64_t>::max());

  PortableParams params{};
  params.queries = std::ranges::max(problem.queries);
  params.keys = std::ranges::max(problem.keys);
  params.q = q.operand(params.queries);
  params.k = k.operand(params.keys);
  params.v = v.operand(params.keys);
  params.o = o.operand(params.queries);
  if (problem.varlen) {
    params.cu_seqlens_q = cu_seqlens_q.data();
    params.cu_seqlens_k = cu_seqlens_k.data();
  }
  const double scale = 1.0 / std::sqrt(problem.head_dim);
  params.scale_log2 = static_cast<float>(scale * std::numbers::log2e);
  params.tiles = (params.queries + kernel.rows - 1) / kernel.rows;
  params.heads = problem.heads;
  params.head_group = problem.heads / problem.key_heads;
  params.head_dim = problem.head_dim;
  params.causal = problem.causal ? 1 : 0;
  for (int block = 0; block < batch * problem.heads * params.tiles; ++block) {
    machine::run_block(static_cast<std::uint32_t>(block), kernel.threads, arrival,
                       [&] { kernel.run(params); });
  }

  /// Rows of a head of one sequence, one after the other.
  const auto rows_of = [&](Rows& from, int first, int count, int head) {
    std::vector<double> values;
    for (int row = first; row < first + count; ++row) {
      for (int c = 0; c < problem.head_dim; ++c) {
        values.push_back(double{to_float(Stored{from.at(row, head, c)})});
      }
    }
    return values;
  };
  const auto width = static_cast<std::size_t>(problem.head_dim);
  for (int b = 0; b < batch; ++b) {
    const int queries = problem.queries[b];
    const int count = problem.keys[b];
    for (int head = 0; head < problem.heads && queries > 0; ++head) {
      const int key_head = head / params.head_group;
      const std::vector<double> asked = rows_of(q, cu_seqlens_q[b], queries, head);
      const std::vector<double> keys = rows_of(k, cu_seqlens_k[b], count, key_head);
      const std::vector<double> values = rows_of(v, cu_seqlens_k[b], count, key_head);
      std::vector<double> expected(asked.size());
      for (int i = 0; i < queries; ++i) {
        const int seen = problem.causal ? std::clamp(i + 1 + count - queries, 0, count) : count;
        const std::size_t end = static_cast<std::size_t>(seen) * width;
        const std::size_t at = static_cast<std::size_t>(i) * width;
        reference::attend_row(std::span<const double>(asked).subspan(at, width),
                              std::span<const double>(keys).first(end),
                              std::span<const double>(values).first(end), scale,
                              std::span(expected).subspan(at, width));
      }
      const std::vector<double> actual = rows_of(o, cu_seqlens_q[b], queries, head);
      const reference::Compared matrix{.rows = queries,
                                       .columns = problem.head_dim,
                                       .type = type,
                                       .actual = actual,
                                       .expected = expected};
      ASSERT_EQ(reference::judge(matrix, reference::tolerance_of(type)).reason, "")
          << kernel.name << ", sequence " << b << ", head " << head;
    }
  }
}

void check_all(const Problem& problem) {
  for (const machine::Arrival arrival : {machine::Arrival::kLate, machine::Arrival::kAtOnce}) {
    for (const Built& kernel : kernels<F16>()) {
      if (kernel.head_dim >= problem.head_dim) {
        check<Float16>(kernel, problem, arrival, to_float16, DType::kF16);
      }
    }
  }
  for (const Built& kernel : kernels<Bf16>()) {
    if (kernel.head_dim >= problem.head_dim) {
      check<BFloat16>(kernel, problem, machine::Arrival::kLate, to_bfloat16, DType::kBF16);
    }
  }
}

TEST(AttentionKernels, TailsOfQueriesAndKeys) {
  check_all({.head_dim = 32, .queries = {37}, .keys = {203}});
}

TEST(AttentionKernels, CausalWithGroupedHeads) {
  check_all({.heads = 2, .head_dim = 64, .causal = true, .queries = {70}, .keys = {150}});
}

TEST(AttentionKernels, SequencesOfDifferentLengths) {
  check_all({.heads = 2,
             .key_heads = 2,
             .head_dim = 40,
             .causal = true,
             .varlen = true,
             .queries = {1, 66, 0, 40, 9},
             .keys = {17, 66, 5, 30, 0}});
}

TEST(AttentionKernels, ColumnsBeyondTheHead) {
  check_all({.head_dim = 72, .queries = {33}, .keys = {129}});
  check_all({.head_dim = 104, .queries = {17}, .keys = {65}});
}

TEST(AttentionKernels, MaximaThatGrow) {
  check_all({.head_dim = 64, .queries = {40}, .keys = {250}, .growing = true});
}

TEST(AttentionKernels, OneQueryAndOneKey) {
  check_all({.head_dim = 128, .queries = {1}, .keys = {1}});
}

}  // namespace
}  // namespace fovea::attention
