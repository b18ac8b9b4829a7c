// Defines a profile's figures, and the counters that they are computed from.
#include "lab/profile/figures.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace fovea::lab {
namespace {

constexpr std::array kSources = {
    FigureSource{{"seconds", "of the launch"}, "gpu__time_duration.sum"},
    FigureSource{{"matrix_units", "of the matrix units' peak", true},
                 "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"fma", "of the time that the units of multiply-adds are busy", true},
                 "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"issue", "of cycles in which a scheduler issues", true},
                 "smsp__issue_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"dram", "of the device memory's peak", true},
                 "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"},
    FigureSource{{"dram_bytes_per_second", "of device memory"}, "dram__bytes.sum.per_second"},
    FigureSource{{"dram_read_bytes", "of device memory"}, "dram__bytes_read.sum"},
    FigureSource{{"dram_write_bytes", "of device memory"}, "dram__bytes_write.sum"},
    FigureSource{{"l2", "of the L2 cache's peak throughput", true},
                 "lts__throughput.avg.pct_of_peak_sustained_elapsed"},
    FigureSource{{"l2_hit", "of sectors that the L2 cache has", true},
                 "lts__t_sector_hit_rate.pct"},
    FigureSource{{"l1", "of the peak of shared memory and L1", true},
                 "l1tex__throughput.avg.pct_of_peak_sustained_active"},
    FigureSource{{"l1_hit", "of sectors that the L1 cache has", true},
                 "l1tex__t_sector_hit_rate.pct"},
    FigureSource{{"write_path", "of the peak of the path from L1 to L2", true},
                 "l1tex__m_l1tex2xbar_write_bytes.sum.pct_of_peak_sustained_elapsed"},
    FigureSource{{"write_bytes", "from L1 to L2"}, "l1tex__m_l1tex2xbar_write_bytes.sum"},
    FigureSource{{"occupancy", "of the warps that an SM can hold, that it holds", true},
                 "sm__warps_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"occupancy_limit", "of the warps that an SM can hold, that fit", true},
                 "sm__maximum_warps_per_active_cycle_pct"},
    FigureSource{{"eligible_warps", "of a scheduler that could issue, a cycle"},
                 "smsp__warps_eligible.avg.per_cycle_active"},
    FigureSource{{"registers", "of a thread"}, "launch__registers_per_thread"},
    FigureSource{{"shared_static_bytes", "of a CTA"}, "launch__shared_mem_per_block_static"},
    FigureSource{{"shared_dynamic_bytes", "of a CTA"}, "launch__shared_mem_per_block_dynamic"},
    FigureSource{{"threads", "of a CTA"}, "launch__block_size"},
    FigureSource{{"ctas", "of the grid"}, "launch__grid_size"},
    FigureSource{{"waves", "of CTAs that the SMs take"}, "launch__waves_per_multiprocessor"},
    FigureSource{{"instructions", "that warps executed"}, "smsp__inst_executed.sum"},
    FigureSource{{"thread_instructions", "that threads executed, predicated off or on"},
                 "smsp__thread_inst_executed.sum"},
    FigureSource{{"thread_instructions_on", "that threads executed, predicated on"},
                 "smsp__thread_inst_executed_pred_on.sum"},
    FigureSource{{"threads_per_instruction", "of 32, that take part"},
                 "smsp__thread_inst_executed_per_inst_executed.ratio"},
    FigureSource{{"global_loads", "instructions"}, "smsp__sass_inst_executed_op_global_ld.sum"},
    FigureSource{{"global_stores", "instructions"}, "smsp__sass_inst_executed_op_global_st.sum"},
    FigureSource{{"shared_loads", "instructions"}, "smsp__sass_inst_executed_op_shared_ld.sum"},
    FigureSource{{"shared_stores", "instructions"}, "smsp__sass_inst_executed_op_shared_st.sum"},
    FigureSource{{"local_loads", "instructions: of spilled registers"},
                 "smsp__sass_inst_executed_op_local_ld.sum"},
    FigureSource{{"local_stores", "instructions: of spilled registers"},
                 "smsp__sass_inst_executed_op_local_st.sum"},
    FigureSource{{"async_copies", "instructions"}, "smsp__inst_executed_op_ldgsts.sum"},
    FigureSource{{"sectors_per_load", "of 32 bytes, of a global load"},
                 "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                 "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"},
    FigureSource{{"sectors_per_store", "of 32 bytes, of a global store"},
                 "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
                 "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"},
    FigureSource{{"bytes_per_load_sector", "of 32, that global loads use"},
                 "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"},
    FigureSource{{"bytes_per_store_sector", "of 32, that global stores use"},
                 "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"},
    FigureSource{{"shared_accesses", "rows of banks read or written, conflicts included"},
                 "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"},
    FigureSource{{"shared_busy", "of the peak of shared memory's rows of banks", true},
                 "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"},
    FigureSource{{"bank_conflicts", "rows of banks that had to wait for others"},
                 "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"},
    FigureSource{{"bank_conflict_share", "of rows of banks that had to wait for others", true},
                 "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                 "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"},
    FigureSource{
        {"layout_conflict_share", "of rows of banks that the addresses' layout adds", true},
        "derived__memory_l1_wavefronts_shared_excessive",
        "memory_l1_wavefronts_shared"},
};

/// Figures that are computed from several counters.
constexpr std::array kMore = {
    FigureInfo{"shared_bytes", "of a CTA, static and dynamic"},
    FigureInfo{"ctas_per_sm", "that fit"},
    FigureInfo{"ctas_per_sm_registers", "that fit by their registers"},
    FigureInfo{"predicated_off", "of thread instructions", true},
    FigureInfo{"spill_share", "of instructions that load or store spilled registers", true},
    FigureInfo{"fences", "MEMBAR and FENCE instructions that warps executed"},
    FigureInfo{"fence_share", "of instructions that are fences", true},
    // Shares of the samples of active warps: warps that wait at the cluster's final barrier, as the
    // producer's unused warps do all the time, are left out.
    FigureInfo{"idle_warps", "of samples, at a cluster's barrier", true},
    FigureInfo{"barrier_wait", "of samples, for other warps at a barrier", true},
    FigureInfo{"product_wait", "of samples, for products of the matrix units", true},
    FigureInfo{"fence_wait", "of samples, at a fence", true},
    FigureInfo{"copy_wait", "of samples, for asynchronous copies of their own", true},
};

/// Figures that need source locations.
constexpr std::array kOfPlaces = {
    FigureInfo{"full_wait", "of samples, for a full stage of a ring", true},
    FigureInfo{"empty_wait", "of samples, for an empty stage of a ring", true},
    FigureInfo{"epilogue_share", "of samples, in the epilogue", true},
    FigureInfo{"epilogue_wait", "of the epilogue's samples, for latencies and shared memory", true},
};

}  // namespace

std::span<const FigureInfo> figures_of_places() {
  return kOfPlaces;
}

const std::vector<FigureInfo>& figures() {
  static const std::vector<FigureInfo> all = [] {
    std::vector<FigureInfo> infos;
    std::ranges::transform(kSources, std::back_inserter(infos), &FigureSource::info);
    infos.insert(infos.end(), kMore.begin(), kMore.end());
    return infos;
  }();
  return all;
}

std::span<const FigureSource> figure_sources() {
  return kSources;
}

}  // namespace fovea::lab
