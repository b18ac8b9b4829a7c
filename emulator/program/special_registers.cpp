// Special registers of PTX: their names and sizes.
#include "emulator/program/special_registers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace emu {
namespace {

constexpr std::uint8_t relation(LaneRelation relation) {
  return static_cast<std::uint8_t>(relation);
}

constexpr std::array kTriples = {
    std::pair<std::string_view, SpecialKind>{"%tid", SpecialKind::kThread},
    std::pair<std::string_view, SpecialKind>{"%ntid", SpecialKind::kThreads},
    std::pair<std::string_view, SpecialKind>{"%ctaid", SpecialKind::kBlock},
    std::pair<std::string_view, SpecialKind>{"%nctaid", SpecialKind::kBlocks},
    std::pair<std::string_view, SpecialKind>{"%clusterid", SpecialKind::kCluster},
    std::pair<std::string_view, SpecialKind>{"%nclusterid", SpecialKind::kClusters},
    std::pair<std::string_view, SpecialKind>{"%cluster_ctaid", SpecialKind::kClusterBlock},
    std::pair<std::string_view, SpecialKind>{"%cluster_nctaid", SpecialKind::kClusterBlocks},
};

constexpr std::array kSingles = {
    std::pair<std::string_view, SpecialRegisterName>{"%cluster_ctarank",
                                                     {SpecialKind::kRankInCluster}},
    std::pair<std::string_view, SpecialRegisterName>{"%cluster_nctarank",
                                                     {SpecialKind::kBlocksInCluster}},
    std::pair<std::string_view, SpecialRegisterName>{"%is_explicit_cluster",
                                                     {SpecialKind::kIsExplicitCluster, 0, 1}},
    std::pair<std::string_view, SpecialRegisterName>{"%laneid", {SpecialKind::kLane}},
    std::pair<std::string_view, SpecialRegisterName>{"%warpid", {SpecialKind::kWarp}},
    std::pair<std::string_view, SpecialRegisterName>{"%nwarpid", {SpecialKind::kMaxWarps}},
    std::pair<std::string_view, SpecialRegisterName>{"%smid", {SpecialKind::kMultiprocessor}},
    std::pair<std::string_view, SpecialRegisterName>{"%nsmid", {SpecialKind::kMultiprocessors}},
    std::pair<std::string_view, SpecialRegisterName>{"%gridid", {SpecialKind::kGrid, 0, 64}},
    std::pair<std::string_view, SpecialRegisterName>{
        "%lanemask_eq", {SpecialKind::kLaneMask, relation(LaneRelation::kEqual)}},
    std::pair<std::string_view, SpecialRegisterName>{
        "%lanemask_lt", {SpecialKind::kLaneMask, relation(LaneRelation::kLess)}},
    std::pair<std::string_view, SpecialRegisterName>{
        "%lanemask_le", {SpecialKind::kLaneMask, relation(LaneRelation::kLessOrEqual)}},
    std::pair<std::string_view, SpecialRegisterName>{
        "%lanemask_gt", {SpecialKind::kLaneMask, relation(LaneRelation::kGreater)}},
    std::pair<std::string_view, SpecialRegisterName>{
        "%lanemask_ge", {SpecialKind::kLaneMask, relation(LaneRelation::kGreaterOrEqual)}},
    std::pair<std::string_view, SpecialRegisterName>{"%dynamic_smem_size",
                                                     {SpecialKind::kDynamicSharedBytes}},
    std::pair<std::string_view, SpecialRegisterName>{"%total_smem_size",
                                                     {SpecialKind::kTotalSharedBytes}},
    std::pair<std::string_view, SpecialRegisterName>{"%aggr_smem_size",
                                                     {SpecialKind::kAggregateSharedBytes}},
    std::pair<std::string_view, SpecialRegisterName>{"%reserved_smem_offset_begin",
                                                     {SpecialKind::kReservedSharedBegin}},
    std::pair<std::string_view, SpecialRegisterName>{"%reserved_smem_offset_end",
                                                     {SpecialKind::kReservedSharedEnd}},
    std::pair<std::string_view, SpecialRegisterName>{"%reserved_smem_offset_cap",
                                                     {SpecialKind::kReservedSharedEnd}},
    std::pair<std::string_view, SpecialRegisterName>{"%reserved_smem_offset_1",
                                                     {SpecialKind::kGroupScratch}},
    std::pair<std::string_view, SpecialRegisterName>{"%envreg1", {SpecialKind::kWorkspaceHigh}},
    std::pair<std::string_view, SpecialRegisterName>{"%envreg2", {SpecialKind::kWorkspaceLow}},
    std::pair<std::string_view, SpecialRegisterName>{"%current_graph_exec",
                                                     {SpecialKind::kZero, 0, 64}},
};

// Registers that are numbered: %envreg0 to %envreg31, and counters of a profiler.
struct Numbered {
  std::string_view stem;
  std::string_view ending;
  int count;
  int bits;
};
constexpr std::array kNumbered = {
    Numbered{"%envreg", "", 32, 32},
    Numbered{"%pm", "", 8, 32},
    Numbered{"%pm", "_64", 8, 64},
};

bool is_numbered(const Numbered& row, std::string_view name) {
  if (!name.starts_with(row.stem) || !name.ends_with(row.ending) ||
      name.size() <= row.stem.size() + row.ending.size()) {
    return false;
  }
  name.remove_prefix(row.stem.size());
  name.remove_suffix(row.ending.size());
  int number = -1;
  const auto result = std::from_chars(name.data(), name.data() + name.size(), number);
  return result.ptr == name.data() + name.size() && number >= 0 && number < row.count;
}

}  // namespace

std::optional<SpecialRegisterName> find_special_register(std::string_view name) {
  if (name.size() > 2 && name[name.size() - 2] == '.' && name.back() >= 'x' && name.back() <= 'z') {
    const std::string_view stem = name.substr(0, name.size() - 2);
    const auto* const row =
        std::ranges::find(kTriples, stem, &std::pair<std::string_view, SpecialKind>::first);
    return row == kTriples.end()
               ? std::nullopt
               : std::optional(SpecialRegisterName{
                     row->second, static_cast<std::uint8_t>(name.back() - 'x'), 32});
  }
  const auto* const single =
      std::ranges::find(kSingles, name, &std::pair<std::string_view, SpecialRegisterName>::first);
  if (single != kSingles.end()) {
    return single->second;
  }
  const auto* const numbered =
      std::ranges::find_if(kNumbered, [&](const Numbered& row) { return is_numbered(row, name); });
  return numbered == kNumbered.end()
             ? std::nullopt
             : std::optional(SpecialRegisterName{SpecialKind::kZero, 0, numbered->bits});
}

}  // namespace emu
