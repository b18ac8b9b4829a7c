// The model of kernels' times: what bounds made-up work, and how far it is from what an H200 took.
#include "lab/predict/prediction.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lab/predict/instruction_counts.hpp"

namespace fovea::lab {
namespace {

using Units = std::array<OperationCounts, 2>;

/// A thousand tiles an SM, whose products take a thousand clocks each.
KernelWork made_up_work(const GpuRates& rates) {
  KernelWork work;
  work.sizes = {1000.0 * rates.sms, 0};
  work.pieces = work.chains = work.sizes[0];
  work.in_flight = 2;
  return work;
}
Units made_up_units(const GpuRates& rates) {
  Units units;
  units[0].wide_products = 1000 * rates.wide_products;
  return units;
}
GpuRates without_power_limit() {
  GpuRates rates = find_gpu_rates("h200");
  rates.max_watts = rates.short_watts = 1e9;
  return rates;
}

TEST(PredictionTest, TheBusiestResourceBounds) {
  const GpuRates rates = without_power_limit();
  KernelWork work = made_up_work(rates);
  Units units = made_up_units(rates);
  const Prediction products = predict(work, units, rates);
  EXPECT_EQ(products.bound(), "matrix units");
  // A million clocks, and what half as long a chain of warps adds: a 32nd and a fifth of that.
  EXPECT_NEAR((products.seconds - products.overhead) * rates.max_clock, 1.00617e6, 100);
  EXPECT_DOUBLE_EQ(products.clock, rates.max_clock);

  units[0].instructions = 16000;
  EXPECT_EQ(predict(work, units, rates).bound(), "issue slots");
  units[0].shared_passes = 5000;
  EXPECT_EQ(predict(work, units, rates).bound(), "shared memory");
  units[0].special = 3000;
  EXPECT_EQ(predict(work, units, rates).bound(), "exponentials");
  units[0].global_passes = 7000;
  EXPECT_EQ(predict(work, units, rates).bound(), "loads and stores");
  units[0].of_workers = 4 * 10000.0;
  EXPECT_EQ(predict(work, units, rates).bound(), "latency of warps");
  work.l2_read_bytes = work.sizes[0] * rates.l2_bytes * 20000;
  EXPECT_EQ(predict(work, units, rates).bound(), "L2");
  work.dram_bytes = rates.dram_bytes;  // a second of it
  const Prediction memory = predict(work, units, rates);
  EXPECT_EQ(memory.bound(), "device memory");
  EXPECT_GT(memory.seconds, 1.0);
}

TEST(PredictionTest, TheLastRoundTakesAsLongAsAnother) {
  const GpuRates rates = without_power_limit();
  KernelWork work = made_up_work(rates);
  const Units units = made_up_units(rates);
  const double even = predict(work, units, rates).seconds;
  work.sizes[0] = work.pieces = work.chains = 1000.0 * rates.sms + 1;
  EXPECT_NEAR(predict(work, units, rates).seconds / even, 1.001, 1e-4);
}

TEST(PredictionTest, PowerHoldsTheClockDown) {
  GpuRates rates = find_gpu_rates("h200");
  rates.of_wide_product *= 2;
  const KernelWork work = made_up_work(rates);
  const Units units = made_up_units(rates);
  const Prediction limited = predict(work, units, rates);
  EXPECT_LT(limited.clock, 0.9 * rates.max_clock);
  EXPECT_LT(limited.sustained_clock, limited.clock);
  EXPECT_GT(limited.sustained, limited.seconds);
  // Products have 550 of 700 W, whose energy is in proportion to the clock.
  const double per_second = work.sizes[0] * units[0].wide_products / limited.sustained;
  EXPECT_NEAR(per_second * rates.of_wide_product * limited.sustained_clock / rates.max_clock, 550,
              5);
  rates.of_wide_product /= 4;
  EXPECT_GT(predict(work, units, rates).clock, limited.clock);
}

TEST(PredictionTest, UnknownGpusAreAnsweredWithThoseThereAre) {
  try {
    static_cast<void>(find_gpu_rates("voodoo2"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("h200"), std::string::npos) << error.what();
  }
}

TEST(PredictionTest, TheTableIsOfTheKernelsThatShip) {
  for (const int arch : {90, 100}) {
    ASSERT_FALSE(counted_cases(arch).empty());
    for (const CountedCase& counted : counted_cases(arch)) {
      if (const std::uint64_t code = ptx_hash(counted.kernel, arch); code != 0) {
        EXPECT_EQ(code, counted.code)
            << counted.kernel << " has changed: run scripts/count-instructions";
      }
    }
  }
}

struct Measured {
  double seconds = 0;
  double sustained = 0;
};

/// Times of each case in the newest run on an H200 that has it.
std::map<std::pair<std::string, std::string>, Measured> measured_on_h200() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FOVEA_H200_RESULTS)) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::map<std::pair<std::string, std::string>, Measured> measured;
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file);
    const auto json = nlohmann::json::parse(stream);
    if (!json.contains("kernels")) {
      continue;
    }
    for (const auto& figure : json["kernels"]["figures"]) {
      if (figure.value("plan", "").empty()) {
        measured[{figure["card"], figure["case"]}] = {figure["seconds"], figure["sustained"]};
      }
    }
  }
  return measured;
}

struct Compared {
  Prediction prediction;
  Measured measured;

  [[nodiscard]] double error() const { return prediction.seconds / measured.seconds - 1; }
  [[nodiscard]] double sustained_error() const {
    return prediction.sustained / measured.sustained - 1;
  }
};

std::vector<Compared> compared_with_h200() {
  const auto measured = measured_on_h200();
  std::vector<Compared> all;
  for (const CountedCase& counted : counted_cases(90)) {
    const auto found = measured.find({std::string(counted.card), std::string(counted.case_name)});
    if (found == measured.end()) {
      continue;
    }
    const std::vector<std::string> names = {std::string(counted.card)};
    all.push_back({predict(*find_cards(names).front(), std::string(counted.case_name),
                           find_gpu_rates("h200")),
                   found->second});
  }
  return all;
}

double median_error(const std::vector<Compared>& all, double (Compared::*error)() const) {
  std::vector<double> errors;
  for (const Compared& compared : all) {
    errors.push_back(std::abs((compared.*error)()));
  }
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

/// Rows of docs/laboratory.md.
std::string table_of(const std::vector<Compared>& all) {
  std::string table =
      "| card | case | us, predicted | measured | error | sustained, predicted | measured | error "
      "| "
      "GHz | bound by |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Compared& compared : all) {
    const Prediction& said = compared.prediction;
    table += fmt::format(
        "| `{}` | {} | {:.1f} | {:.1f} | {:+.1f}% | {:.1f} | {:.1f} | {:+.1f}% | {:.2f} | {} |\n",
        said.card, said.case_name, said.seconds * 1e6, compared.measured.seconds * 1e6,
        100 * compared.error(), said.sustained * 1e6, compared.measured.sustained * 1e6,
        100 * compared.sustained_error(), said.clock * 1e-9, said.bound());
  }
  return table +
         fmt::format("\nThe median error of these {} cases is {:.1f}%, sustained {:.1f}%.\n",
                     all.size(), 100 * median_error(all, &Compared::error),
                     100 * median_error(all, &Compared::sustained_error));
}

TEST(PredictionTest, AgreesWithWhatAnH200Took) {
  const std::vector<Compared> all = compared_with_h200();
  ASSERT_GE(all.size(), 30U);
  EXPECT_LT(median_error(all, &Compared::error), 0.06);
  EXPECT_LT(median_error(all, &Compared::sustained_error), 0.06);
  const auto near = std::ranges::count_if(
      all, [](const Compared& compared) { return std::abs(compared.error()) < 0.15; });
  EXPECT_GE(static_cast<double>(near), 0.75 * static_cast<double>(all.size()));

  std::ifstream page(FOVEA_LABORATORY_PAGE);
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  const std::string table = table_of(all);
  EXPECT_NE(text.find(table), std::string::npos) << "docs/laboratory.md has to say:\n\n" << table;
}

Prediction prediction_of(const CountedCase& counted, const GpuRates& rates) {
  const std::vector<std::string> names = {std::string(counted.card)};
  const auto workload = find_case(*find_cards(names).front(), counted.case_name).make(1);
  return predict(compute_work(*workload, counted.kernel, rates.sms), counted.counts, rates);
}

/// Prediction of the card's first counted case on the GPU; of kernels that are the same on all, by
/// the counts of Hopper's.
Prediction prediction_of(std::string_view card, const GpuRates& rates) {
  const CountedCase* found = nullptr;
  for (const int arch : {rates.arch, 90}) {
    for (const CountedCase& counted : counted_cases(arch)) {
      found = found == nullptr && counted.card == card ? &counted : found;
    }
  }
  if (found == nullptr) {
    throw Error(fmt::format("{} is not counted", card));
  }
  return prediction_of(*found, rates);
}

/// The cards of a layer, but for attention's, and of the patch embedding.
struct EncoderCards {
  std::string_view patch_embed;
  std::string_view norm;
  std::string_view qkv;
  std::string_view out;
  std::string_view fc1;
  std::string_view fc2;
};
constexpr EncoderCards kBf16 = {"patch_embed_bf16", "row_norm",      "gemm_qkv_norm",
                                "gemm_out_bf16",    "gemm_fc1_norm", "gemm_fc2_bf16"};
constexpr EncoderCards kInt8 = {"patch_embed_u8", "layer_norm_i8", "gemm_qkv_int8",
                                "gemm_out_bf16",  "gemm_fc1_int8", "gemm_fc2_int8"};
constexpr EncoderCards kFp8 = {"patch_embed_u8", "layer_norm_i8",         "gemm_qkv_int8",
                               "gemm_out_bf16",  "gemm_fc1_int8_to_e4m3", "gemm_fc2"};
constexpr EncoderCards kMxfp8 = {"patch_embed_bf16", "layer_norm_mxfp8", "gemm_qkv_mxfp8",
                                 "gemm_out_bf16",    "gemm_fc1_mxfp8",   "gemm_fc2_mxfp8"};

/// Images per second of base-patch16-224 without the pooling head: the cards' cases are of 1,184
/// images, the patch embedding's of four times as many, and attention's of 1,024.
double encoder_rate(const EncoderCards& cards, const GpuRates& rates) {
  const auto seconds = [&](std::string_view card) { return prediction_of(card, rates).sustained; };
  constexpr double kImages = 1184;
  constexpr double kLayers = 12;
  const double layer = 2 * seconds(cards.norm) + seconds(cards.qkv) +
                       seconds("attention") * kImages / 1024 + seconds(cards.out) +
                       seconds(cards.fc1) + seconds(cards.fc2);
  return kImages / (seconds(cards.patch_embed) / 4 + kLayers * layer);
}

/// What `fovea bench` measured on an H200, of 1,024 images (2026-11-23-3-d202b969dd3c).
struct MeasuredEncoder {
  std::string_view precision;
  EncoderCards cards;
  double rate;  // images per second
};
constexpr std::array<MeasuredEncoder, 3> kMeasuredEncoders = {
    {{"bf16", kBf16, 16160}, {"int8", kInt8, 25624}, {"fp8", kFp8, 25011}}};

TEST(PredictionTest, TheEncoderIsTheSumOfItsKernels) {
  for (const MeasuredEncoder& measured : kMeasuredEncoders) {
    EXPECT_NEAR(encoder_rate(measured.cards, find_gpu_rates("h200")) / measured.rate, 1, 0.05)
        << measured.precision;
  }
}

TEST(PredictionTest, ThePageHasWhatABlackwellShouldTake) {
  const GpuRates& rates = find_gpu_rates("b200");
  std::string table =
      "| card | case | kernel | us | sustained | GHz | bound by |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const CountedCase& counted : counted_cases(rates.arch)) {
    const Prediction said = prediction_of(counted, rates);
    table += fmt::format("| `{}` | {} | `{}` | {:.1f} | {:.1f} | {:.2f} | {} |\n", counted.card,
                         counted.case_name, counted.kernel, said.seconds * 1e6,
                         said.sustained * 1e6, said.clock * 1e-9, said.bound());
  }
  table +=
      "\nImages per second by the sum of the encoder's kernels, base-patch16-224 without the "
      "pooling head; what was measured on an H200 has the head.\n"
      "The cards' QKV and FC1 in int8 have no scales of rows, the encoder's have:\n\n"
      "| precision | B200 | H200 | H200, measured |\n| --- | --- | --- | --- |\n";
  for (const MeasuredEncoder& measured : kMeasuredEncoders) {
    table += fmt::format("| `{}` | {:.0f} | {:.0f} | {:.0f} |\n", measured.precision,
                         encoder_rate(measured.cards, rates),
                         encoder_rate(measured.cards, find_gpu_rates("h200")), measured.rate);
  }
  table += fmt::format("| `mxfp8` | {:.0f} | | |\n", encoder_rate(kMxfp8, rates));
  std::ifstream page(FOVEA_LABORATORY_PAGE);
  const std::string text((std::istreambuf_iterator<char>(page)), {});
  EXPECT_NE(text.find(table), std::string::npos) << "docs/laboratory.md has to say:\n\n" << table;
}

// Products with A in shared memory, and with A in registers.
constexpr std::string_view kPtx =
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16\n"
    "  {%f1, %f2}, %rd1, %rd2, p, 1, 1, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16\n"
    "  {%f1, %f2}, {%r1, %r2, %r3, %r4}, %rd2, p, 1, 1, 0;\n";

TEST(OperationCounterTest, CountsByWarpsAndKinds) {
  OperationCounter counter(kPtx);
  const auto run = [&](int warp, std::string_view instruction, int line = 1,
                       std::uint32_t passes = 0) {
    counter.add({.kind = emu::TraceKind::kRun,
                 .warp = warp,
                 .lanes = ~0U,
                 .line = line,
                 .instruction = instruction,
                 .passes = passes});
  };
  constexpr std::string_view kProduct = "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16";
  for (int warp = 0; warp < 4; ++warp) {
    run(warp, kProduct, 1);
    run(warp, kProduct, 3);
    run(warp, "ex2.approx.ftz.f32");
  }
  run(4, "st.global.v4.u32", 1, 32);
  run(4, "ld.shared.u32", 1, 2);
  run(4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16");
  run(5, "tcgen05.mma.cta_group::2.kind::i8");
  run(6, "tcgen05.ld.sync.aligned.32x32b.x32.b32");
  counter.add({.kind = emu::TraceKind::kWait, .instruction = "mbarrier.try_wait"});
  const OperationCounts counts = counter.counts();
  EXPECT_THROW(run(6, "tcgen05.mma.cta_group::1.kind::i8"), Error);
  EXPECT_EQ(counts.instructions, 17);
  EXPECT_EQ(counts.of_workers, 13);  // and the warp that finishes products
  EXPECT_EQ(counts.pair_steps, 1);
  EXPECT_EQ(counts.tensor_passes, 32);
  EXPECT_EQ(counts.special, 4);
  EXPECT_EQ(counts.global_passes, 32);
  EXPECT_EQ(counts.shared_passes, 2 + 4);
  EXPECT_EQ(counts.wide_products, 2 * 64 * 128 * 16);
  EXPECT_EQ(counts.narrow_products, 0);
  EXPECT_EQ(counts.operand_passes, (64 + 128) * 32 / 128 + 128 * 32 / 128);
}

}  // namespace
}  // namespace fovea::lab
