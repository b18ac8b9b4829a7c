// Defines a profile's figures, and the counters that they are computed from.
#include "lab/profile/figures.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace fovea::lab {
namespace {

constexpr std::array kSources = {
    FigureSource{{"seconds", "duration of the launch"}, "gpu__time_duration.sum"},
    FigureSource{{"matrix_units", "share of the matrix units' peak", true},
                 "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"fma", "share of cycles in which the FMA units are busy", true},
                 "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"issue", "share of cycles in which a scheduler issues an instruction", true},
                 "smsp__issue_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"dram", "share of the device memory's peak bandwidth", true},
                 "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"},
    FigureSource{{"dram_bytes_per_second", "throughput of device memory"},
                 "dram__bytes.sum.per_second"},
    FigureSource{{"dram_read_bytes", "bytes read from device memory"}, "dram__bytes_read.sum"},
    FigureSource{{"dram_write_bytes", "bytes written to device memory"}, "dram__bytes_write.sum"},
    FigureSource{{"l2", "share of the L2 cache's peak throughput", true},
                 "lts__throughput.avg.pct_of_peak_sustained_elapsed"},
    FigureSource{{"l2_hit", "hit rate of the L2 cache", true}, "lts__t_sector_hit_rate.pct"},
    FigureSource{{"l1", "share of the peak throughput of shared memory and L1", true},
                 "l1tex__throughput.avg.pct_of_peak_sustained_active"},
    FigureSource{{"l1_hit", "hit rate of the L1 cache", true}, "l1tex__t_sector_hit_rate.pct"},
    FigureSource{{"write_path", "share of the peak write throughput from L1 to L2", true},
                 "l1tex__m_l1tex2xbar_write_bytes.sum.pct_of_peak_sustained_elapsed"},
    FigureSource{{"write_bytes", "bytes written from L1 to L2"},
                 "l1tex__m_l1tex2xbar_write_bytes.sum"},
    FigureSource{{"occupancy", "active warps as a share of the warps that an SM supports", true},
                 "sm__warps_active.avg.pct_of_peak_sustained_active"},
    FigureSource{{"occupancy_limit", "limit of the occupancy due to the kernel's resources", true},
                 "sm__maximum_warps_per_active_cycle_pct"},
    FigureSource{
        {"eligible_warps", "warps per scheduler and cycle that could issue an instruction"},
        "smsp__warps_eligible.avg.per_cycle_active"},
    FigureSource{{"registers", "registers per thread"}, "launch__registers_per_thread"},
    FigureSource{{"shared_static_bytes", "static shared memory per CTA"},
                 "launch__shared_mem_per_block_static"},
    FigureSource{{"shared_dynamic_bytes", "dynamic shared memory per CTA"},
                 "launch__shared_mem_per_block_dynamic"},
    FigureSource{{"threads", "threads per CTA"}, "launch__block_size"},
    FigureSource{{"ctas", "CTAs in the grid"}, "launch__grid_size"},
    FigureSource{{"waves", "size of the grid relative to the CTAs that fit into the SMs"},
                 "launch__waves_per_multiprocessor"},
    FigureSource{{"instructions", "instructions executed by warps"}, "smsp__inst_executed.sum"},
    FigureSource{{"thread_instructions", "instructions executed by threads, predicated on or off"},
                 "smsp__thread_inst_executed.sum"},
    FigureSource{{"thread_instructions_on", "instructions executed by threads, predicated on"},
                 "smsp__thread_inst_executed_pred_on.sum"},
    FigureSource{{"threads_per_instruction", "active threads per warp instruction"},
                 "smsp__thread_inst_executed_per_inst_executed.ratio"},
    FigureSource{{"global_loads", "instructions that load from global memory"},
                 "smsp__sass_inst_executed_op_global_ld.sum"},
    FigureSource{{"global_stores", "instructions that store to global memory"},
                 "smsp__sass_inst_executed_op_global_st.sum"},
    FigureSource{{"shared_loads", "instructions that load from shared memory"},
                 "smsp__sass_inst_executed_op_shared_ld.sum"},
    FigureSource{{"shared_stores", "instructions that store to shared memory"},
                 "smsp__sass_inst_executed_op_shared_st.sum"},
    FigureSource{{"local_loads", "instructions that load spilled registers"},
                 "smsp__sass_inst_executed_op_local_ld.sum"},
    FigureSource{{"local_stores", "instructions that store spilled registers"},
                 "smsp__sass_inst_executed_op_local_st.sum"},
    FigureSource{{"async_copies", "instructions that copy global to shared memory"},
                 "smsp__inst_executed_op_ldgsts.sum"},
    FigureSource{{"sectors_per_load", "sectors of 32 bytes per global load"},
                 "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
                 "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"},
    FigureSource{{"sectors_per_store", "sectors of 32 bytes per global store"},
                 "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
                 "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"},
    FigureSource{{"bytes_per_load_sector", "bytes of each 32-byte sector that global loads use"},
                 "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"},
    FigureSource{{"bytes_per_store_sector", "bytes of each 32-byte sector that global stores use"},
                 "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"},
    FigureSource{{"shared_accesses", "wavefronts in shared memory, including bank conflicts"},
                 "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"},
    FigureSource{{"shared_busy", "share of the peak rate of shared-memory wavefronts", true},
                 "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"},
    FigureSource{{"bank_conflicts", "wavefronts in shared memory due to bank conflicts"},
                 "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"},
    FigureSource{
        {"bank_conflict_share", "share of shared-memory wavefronts due to bank conflicts", true},
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"},
    FigureSource{
        {"layout_conflict_share", "share of shared-memory wavefronts due to the layout", true},
        "derived__memory_l1_wavefronts_shared_excessive",
        "memory_l1_wavefronts_shared"},
};

/// Figures that are computed from several counters.
constexpr std::array kDerived = {
    FigureInfo{"shared_bytes", "static and dynamic shared memory per CTA"},
    FigureInfo{"ctas_per_sm", "CTAs that fit into an SM"},
    FigureInfo{"ctas_per_sm_registers", "CTAs whose registers fit into an SM"},
    FigureInfo{"predicated_off", "share of thread instructions that are predicated off", true},
    FigureInfo{"spill_share", "share of instructions that load or store spilled registers", true},
    FigureInfo{"fences", "MEMBAR and FENCE instructions executed by warps"},
    FigureInfo{"fence_share", "share of instructions that are fences", true},
    // The following shares, except idle_warps, exclude samples of warps that wait at the cluster's
    // final barrier, such as the unused warps of the producer.
    FigureInfo{"idle_warps", "share of samples at a cluster's barrier", true},
    FigureInfo{"barrier_wait", "share of samples that wait for other warps at a barrier", true},
    FigureInfo{"product_wait", "share of samples that wait for products of the matrix units", true},
    FigureInfo{"fence_wait", "share of samples that wait at a fence", true},
    FigureInfo{"copy_wait", "share of samples that wait for the warp's asynchronous copies", true},
};

/// Figures that need source locations.
constexpr std::array kOfPlaces = {
    FigureInfo{"full_wait", "share of samples that wait for a full stage of a ring buffer", true},
    FigureInfo{"empty_wait", "share of samples that wait for an empty stage of a ring buffer",
               true},
    FigureInfo{"epilogue_share", "share of samples in the epilogue", true},
    FigureInfo{"epilogue_wait",
               "share of the epilogue's samples that wait for latencies or shared memory", true},
};

}  // namespace

std::span<const FigureInfo> figures_of_places() {
  return kOfPlaces;
}

const std::vector<FigureInfo>& figures() {
  static const std::vector<FigureInfo> all = [] {
    std::vector<FigureInfo> infos;
    std::ranges::transform(kSources, std::back_inserter(infos), &FigureSource::info);
    infos.insert(infos.end(), kDerived.begin(), kDerived.end());
    return infos;
  }();
  return all;
}

std::span<const FigureSource> figure_sources() {
  return kSources;
}

}  // namespace fovea::lab
