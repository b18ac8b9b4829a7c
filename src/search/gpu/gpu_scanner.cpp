// Searches on the GPU in three steps: computes the best bounds in every tile of rows for each
// query, picks the tiles that may contain one of the best rows, and computes the bounds of their
// rows.
#include "search/gpu/gpu_scanner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/divide_up.hpp"
#include "core/error.hpp"
#include "core/wording.hpp"
#include "gpu/launch/launch.hpp"
#include "gpu/launch/search.hpp"
#include "kernels/search/search_params.hpp"

namespace fovea::search {
namespace {

using row_search::kTileRows;

static_assert(sizeof(Bounds) == sizeof(row_search::Bounds) &&
              offsetof(Bounds, upper) == offsetof(row_search::Bounds, upper));

template <typename T>
std::size_t byte_size(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(T);
}

/// A page-locked buffer for coded rows that are copied to the device.
class Staging {
 public:
  static constexpr std::int64_t kRows = 1024;

  Staging(gpu::Device& device, std::int64_t stride)
      : codes_(device, static_cast<std::size_t>(kRows * stride)),
        terms_(device, byte_size<row_search::RowTerms>(kRows)),
        copied_(device.make_event()),
        stride_(stride) {}

  [[nodiscard]] bool can_add(std::int64_t count, std::int64_t first) const {
    return count_ == 0 || (first == first_ + count_ && count_ + count <= kRows);
  }

  void add(const RowCopy& copy, std::int64_t count, std::int64_t first) {
    if (count_ == 0) {
      if (is_copying_) {
        copied_->synchronize();
        is_copying_ = false;
      }
      first_ = first;
    }
    std::memcpy(codes_.bytes().data() + count_ * stride_, copy.row_codes(0),
                static_cast<std::size_t>(count * stride_));
    auto* const terms = reinterpret_cast<row_search::RowTerms*>(terms_.bytes().data()) + count_;
    const BoundTerms source = copy.terms.view();
    for (std::int64_t row = 0; row < count; ++row) {
      terms[row] = {source.scale[row], source.projection[row], source.length[row],
                    source.error[row]};
    }
    count_ += count;
  }

  void send(gpu::Device& device, const gpu::SearchRows& rows, gpu::Stream& stream) {
    if (count_ == 0) {
      return;
    }
    device.copy_to_device(rows.codes + static_cast<std::size_t>(first_ * stride_),
                          codes_.bytes().first(static_cast<std::size_t>(count_ * stride_)), stream);
    device.copy_to_device(rows.terms + byte_size<row_search::RowTerms>(first_),
                          terms_.bytes().first(byte_size<row_search::RowTerms>(count_)), stream);
    copied_->record(stream);
    is_copying_ = true;
    count_ = 0;
  }

 private:
  gpu::PinnedBuffer codes_;
  gpu::PinnedBuffer terms_;
  std::unique_ptr<gpu::Event> copied_;
  std::int64_t stride_;
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
  bool is_copying_ = false;
};

/// The two staging buffers of a thread. Rows are coded into one while the other is copied.
struct Worker {
  Worker(gpu::Device& device, std::int64_t stride)
      : stream(device.make_stream()), staging{{device, stride}, {device, stride}} {}

  std::unique_ptr<gpu::Stream> stream;
  Staging staging[2];
  int current = 0;
};

/// Coded queries in the layout of the kernels.
struct DeviceQueries {
  std::vector<std::int8_t> codes;
  std::vector<row_search::QueryTerms> terms;
};

/// Codes queries and pads them with zeros to `capacity` queries. `fine`: whether to use more than 8
/// bits.
DeviceQueries code_queries(const RowCoder& coder, std::span<const double> unit,
                           std::int64_t capacity, bool fine) {
  constexpr int kMaxCoarseCode = 127;
  QueryCodes query_codes(
      coder, unit,
      fine ? std::min(QueryCodes::max_code(coder), row_search::kMostFineCode) : kMaxCoarseCode);
  const std::size_t count = query_codes.codes.size() / static_cast<std::size_t>(coder.stride());
  query_codes.codes.resize(static_cast<std::size_t>(capacity * coder.stride()));
  DeviceQueries queries{
      .codes = gpu::pack_queries(query_codes.codes, coder.stride(), fine),
      .terms = std::vector<row_search::QueryTerms>(static_cast<std::size_t>(capacity))};
  const BoundTerms terms = query_codes.terms.view();
  for (std::size_t query = 0; query < count; ++query) {
    queries.terms[query] = {terms.scale[query], terms.projection[query], terms.length[query],
                            query_codes.offsets[query]};
  }
  return queries;
}

class GpuScanner final : public RowScanner {
 public:
  GpuScanner(std::unique_ptr<gpu::Device> device, const GpuScanLimits& limits,
             std::vector<const gpu::KernelImage*> replacement_images)
      : device_(std::move(device)),
        kernels_(*device_, std::move(replacement_images)),
        limits_(limits) {}
  // Makes the context current while members are freed; the guard restores the previous one.
  ~GpuScanner() override { context_ = device_->hold_context(); }

  [[nodiscard]] std::string description() const override {
    const gpu::DeviceInfo& info = device_->info();
    return fmt::format("cuda ({}, sm_{})", info.name, info.arch());
  }

  void begin(const RowCoder& coder, std::int64_t rows, int workers) override {
    const gpu::ContextGuard context = device_->hold_context();
    free_rows();
    const gpu::SearchProblem problem{.rows = rows, .stride = coder.stride(), .queries = 1};
    if (const Support support = gpu::can_run(problem, device_->info()); !support) {
      fail("{}; use {}", support.why, option_words("device", "cpu"));
    }
    const auto codes = static_cast<std::uint64_t>(gpu::search_code_bytes(rows, coder.stride()));
    const auto terms = static_cast<std::uint64_t>(gpu::search_term_bytes(rows));
    const auto query_bytes = static_cast<std::uint64_t>(bytes_per_query(rows));
    const std::uint64_t needed = codes + terms + fixed_bytes() + query_bytes;
    const std::uint64_t free = device_->free_memory();
    if (needed > free) {
      fail(
          "a search in {} rows of {} numbers needs {} bytes of memory on {}, but only {} are free: "
          "use {}",
          rows, coder.dimension(), needed, device_->info().name, free,
          option_words("device", "cpu"));
    }
    const std::uint64_t scratch_bytes =
        std::min(static_cast<std::uint64_t>(limits_.scratch_bytes), free - needed + query_bytes);
    queries_per_scan_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(scratch_bytes / query_bytes), 1, limits_.queries);
    codes_ = gpu::DeviceBuffer(*device_, codes);
    terms_ = gpu::DeviceBuffer(*device_, terms);
    rows_ = {.codes = codes_.address(),
             .terms = terms_.address(),
             .count = rows,
             .stride = coder.stride()};
    // The kernels also multiply the rows that pad the last tile, and ignore the results.
    const std::unique_ptr<gpu::Stream> stream = device_->make_stream();
    const auto used = static_cast<std::uint64_t>(rows * coder.stride());
    const std::uint64_t used_terms = byte_size<row_search::RowTerms>(rows);
    if (used < codes) {
      device_->fill(codes_.address() + used, 0, codes - used, *stream);
      device_->fill(terms_.address() + used_terms, 0, terms - used_terms, *stream);
    }
    stream->synchronize();
    for (int worker = 0; worker < workers; ++worker) {
      workers_.push_back(std::make_unique<Worker>(*device_, coder.stride()));
    }
  }

  void upload(int worker, const RowCopy& copy, std::int64_t count, std::int64_t first) override {
    const gpu::ContextGuard context = device_->hold_context();
    Worker& local = *workers_.at(static_cast<std::size_t>(worker));
    if (!local.staging[local.current].can_add(count, first)) {
      local.staging[local.current].send(*device_, rows_, *local.stream);
      local.current ^= 1;
    }
    local.staging[local.current].add(copy, count, first);
  }

  void end() override {
    const gpu::ContextGuard context = device_->hold_context();
    for (const std::unique_ptr<Worker>& worker : workers_) {
      worker->staging[worker->current].send(*device_, rows_, *worker->stream);
    }
    for (const std::unique_ptr<Worker>& worker : workers_) {
      worker->stream->synchronize();
    }
    workers_.clear();
    stream_ = device_->make_stream();
  }

  void find(const RowCoder& coder, const Queries& queries, std::size_t rank,
            const Use& use) override {
    const gpu::ContextGuard context = device_->hold_context();
    const auto count = static_cast<std::int64_t>(queries.size());
    for (std::int64_t first = 0; first < count; first += queries_per_scan_) {
      const std::int64_t part = std::min(queries_per_scan_, count - first);
      find_in_batch(coder,
                    queries.subset(static_cast<std::size_t>(first), static_cast<std::size_t>(part))
                        .unit<double>(),
                    part, first, rank, use);
    }
  }

 private:
  [[nodiscard]] std::int64_t tiles() const { return gpu::search_tiles(rows_.count); }
  [[nodiscard]] std::int64_t bytes_per_query(std::int64_t rows) const {
    return gpu::search_tiles(rows) * 2 * static_cast<std::int64_t>(sizeof(float)) +
           words_per_query() * static_cast<std::int64_t>(sizeof(std::int32_t));
  }
  /// Returns the number of words per query in row_search::PickParams::picked.
  [[nodiscard]] std::int64_t words_per_query() const { return 2 + limits_.tiles; }
  /// Returns the memory for pairs, their bounds and the codes of queries, which does not depend on
  /// the number of rows.
  [[nodiscard]] std::uint64_t fixed_bytes() const {
    constexpr std::uint64_t kCodeBytes = std::uint64_t{16} << 20;
    return kCodeBytes + static_cast<std::uint64_t>(limits_.pairs) *
                            (kTileRows * sizeof(Bounds) + sizeof(row_search::Pair));
  }

  void free_rows() {
    workers_.clear();
    rows_ = {};
    codes_ = {};
    terms_ = {};
  }

  /// Returns a buffer of at least this size. It is reused until a larger one is needed.
  static gpu::DevicePtr ensure_size(gpu::Device& device, gpu::DeviceBuffer& buffer,
                                    std::size_t bytes) {
    if (buffer.bytes() < bytes) {
      buffer = {};
      buffer = gpu::DeviceBuffer(device, bytes);
    }
    return buffer.address();
  }
  static std::span<std::byte> ensure_size(gpu::Device& device, gpu::PinnedBuffer& buffer,
                                          std::size_t bytes) {
    if (buffer.bytes().size() < bytes) {
      buffer = {};
      buffer = gpu::PinnedBuffer(device, bytes);
    }
    return buffer.bytes().first(bytes);
  }

  template <typename T>
  gpu::DevicePtr send(gpu::DeviceBuffer& buffer, std::span<const T> values) {
    const gpu::DevicePtr target = ensure_size(*device_, buffer, values.size_bytes());
    device_->copy_to_device(target, std::as_bytes(values), *stream_);
    return target;
  }

  void find_in_batch(const RowCoder& coder, const std::vector<double>& unit, std::int64_t count,
                     std::int64_t first, std::size_t rank, const Use& use) {
    const gpu::DeviceInfo& info = device_->info();
    const gpu::ScanPlan plan =
        gpu::plan_scan({.rows = rows_.count, .stride = rows_.stride, .queries = count}, info);
    const std::int64_t capacity = gpu::padded_queries(plan, count);
    const DeviceQueries fine = code_queries(coder, unit, plan.fine ? capacity : count, true);
    const DeviceQueries coarse =
        plan.fine ? DeviceQueries{} : code_queries(coder, unit, capacity, false);
    const gpu::DevicePtr fine_codes = send<std::int8_t>(fine_codes_, fine.codes);
    const gpu::DevicePtr fine_terms = send<row_search::QueryTerms>(fine_terms_, fine.terms);
    const gpu::DevicePtr best = ensure_size(*device_, best_, byte_size<float>(count * 2 * tiles()));
    kernels_.run(
        gpu::scan_launch(
            info, plan, rows_, count,
            {.queries = plan.fine ? fine_codes : send<std::int8_t>(coarse_codes_, coarse.codes),
             .query_terms =
                 plan.fine ? fine_terms : send<row_search::QueryTerms>(coarse_terms_, coarse.terms),
             .best = best}),
        *stream_);
    for (std::int64_t skip = 0, remaining = 1; remaining > 0; skip += limits_.tiles) {
      const std::span<const std::int32_t> picked = pick(best, count, rank, skip);
      remaining = 0;
      std::vector<row_search::Pair> pairs;
      for (std::int64_t query = 0; query < count; ++query) {
        const auto words = picked.subspan(static_cast<std::size_t>(query * words_per_query()),
                                          static_cast<std::size_t>(words_per_query()));
        const std::int64_t tile_count = words[1] - skip;  // including tiles of later steps
        remaining = std::max(remaining, tile_count - limits_.tiles);
        for (std::int64_t i = 0; i < std::min(tile_count, limits_.tiles); ++i) {
          pairs.push_back(
              {static_cast<std::int32_t>(query), words[static_cast<std::size_t>(2 + i)]});
        }
      }
      for (std::size_t offset = 0; offset < pairs.size();
           offset += static_cast<std::size_t>(limits_.pairs)) {
        pass_bounds(
            std::span(pairs).subspan(
                offset, std::min(static_cast<std::size_t>(limits_.pairs), pairs.size() - offset)),
            {.queries = fine_codes, .query_terms = fine_terms}, first, use);
      }
    }
  }

  std::span<const std::int32_t> pick(gpu::DevicePtr best, std::int64_t count, std::size_t rank,
                                     std::int64_t skip) {
    const std::size_t bytes = byte_size<std::int32_t>(count * words_per_query());
    const gpu::DevicePtr picked = ensure_size(*device_, picked_, bytes);
    constexpr std::size_t kMaxRank = std::numeric_limits<std::int32_t>::max();
    kernels_.run(gpu::pick_launch(device_->info(),
                                  {.tiles = tiles(),
                                   .queries = count,
                                   .rank = static_cast<std::int64_t>(std::min(rank, kMaxRank)),
                                   .skip = skip,
                                   .capacity = limits_.tiles},
                                  best, picked),
                 *stream_);
    const std::span<std::byte> host_bytes = ensure_size(*device_, host_picked_, bytes);
    device_->copy_to_host(host_bytes, picked, *stream_);
    stream_->synchronize();
    return {reinterpret_cast<const std::int32_t*>(host_bytes.data()), bytes / sizeof(std::int32_t)};
  }

  void pass_bounds(std::span<const row_search::Pair> pairs, gpu::BoundsOperands operands,
                   std::int64_t first_query, const Use& use) {
    const auto count = static_cast<std::int64_t>(pairs.size());
    const std::size_t bytes = byte_size<Bounds>(count * kTileRows);
    operands.pairs = send<row_search::Pair>(pairs_, pairs);
    operands.bounds = ensure_size(*device_, bounds_, bytes);
    kernels_.run(gpu::bounds_launch(device_->info(), rows_, count, operands), *stream_);
    const std::span<std::byte> host_bytes = ensure_size(*device_, host_bounds_, bytes);
    device_->copy_to_host(host_bytes, operands.bounds, *stream_);
    stream_->synchronize();
    const auto* const bounds = reinterpret_cast<const Bounds*>(host_bytes.data());
    std::vector<TileBounds> tile_bounds;
    tile_bounds.reserve(pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const std::int64_t row = std::int64_t{pairs[i].tile} * kTileRows;
      const std::int64_t rows = std::min<std::int64_t>(kTileRows, rows_.count - row);
      tile_bounds.push_back({.query = static_cast<std::size_t>(first_query + pairs[i].query),
                             .first = row,
                             .bounds = {bounds + i * kTileRows, static_cast<std::size_t>(rows)}});
    }
    use(tile_bounds);
  }

  gpu::ContextGuard context_;  // set by the destructor; destroyed after all other members
  std::unique_ptr<gpu::Device> device_;
  gpu::KernelCache kernels_;
  GpuScanLimits limits_;
  std::int64_t queries_per_scan_ = 1;
  gpu::SearchRows rows_;
  gpu::DeviceBuffer codes_;
  gpu::DeviceBuffer terms_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<gpu::Stream> stream_;
  gpu::DeviceBuffer fine_codes_;
  gpu::DeviceBuffer fine_terms_;
  gpu::DeviceBuffer coarse_codes_;
  gpu::DeviceBuffer coarse_terms_;
  gpu::DeviceBuffer best_;
  gpu::DeviceBuffer picked_;
  gpu::DeviceBuffer pairs_;
  gpu::DeviceBuffer bounds_;
  gpu::PinnedBuffer host_picked_;
  gpu::PinnedBuffer host_bounds_;
};

}  // namespace

std::unique_ptr<RowScanner> make_gpu_scanner(
    std::unique_ptr<gpu::Device> device, const GpuScanLimits& limits,
    std::vector<const gpu::KernelImage*> replacement_images) {
  if (!gpu::is_built_for(gpu::KernelId::search_pick, device->info().arch())) {
    fail("no search kernels are built for {} (sm_{})", device->info().name, device->info().arch());
  }
  return std::make_unique<GpuScanner>(std::move(device), limits, std::move(replacement_images));
}

}  // namespace fovea::search
