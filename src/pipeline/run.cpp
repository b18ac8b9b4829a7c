// Runs the main loop of a job in the computing thread.
#include "pipeline/run.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/length.hpp"
#include "core/wording.hpp"
#include "io/text.hpp"
#include "pipeline/meter.hpp"
#include "pipeline/writer.hpp"

namespace fovea::pipeline {
namespace {

std::size_t bytes_of(OutputDType dtype) {
  return size_of(dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16);
}

// Whether all numbers are finite: in infinity and NaN, all exponent bits are set.
template <typename Bits, Bits kExponent>
bool finite_bits(std::span<const std::byte> numbers) {
  bool finite = true;
  for (std::size_t offset = 0; offset < numbers.size(); offset += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, numbers.data() + offset, sizeof(bits));
    finite &= (bits & kExponent) != kExponent;
  }
  return finite;
}

bool all_finite(std::span<const std::byte> numbers, OutputDType dtype) {
  return dtype == OutputDType::kF32 ? finite_bits<std::uint32_t, 0x7f800000U>(numbers)
                                    : finite_bits<std::uint16_t, 0x7c00U>(numbers);
}

// Counts the inputs in a thread of the lowest priority while the job runs.
class Counter {
 public:
  Counter(const RunOptions& options, Meter& meter) {
    if (!options.count_inputs || !options.control.on_progress) {
      return;
    }
    try {
      thread_ = std::thread([this, count = options.count_inputs, &meter] { work(count, meter); });
    } catch (const std::system_error&) {
      return;  // without the thread there is only no estimate of the time left
    }
  }
  ~Counter() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

 private:
  void work(const std::function<std::optional<std::uint64_t>(StopFlag)>& count, Meter& meter) {
    constexpr int kNice = 19;
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
    try {
      if (const auto total = count(&stop_)) {
        meter.set_total(*total);
      }
    } catch (const std::exception&) {
      return;  // the job meets the same error and reports it
    }
  }

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class Run {
 public:
  Run(const RunOptions& options, InputStream& inputs, Output& output)
      : options_(options),
        output_(output),
        meter_(options.rows_before, options.failed_before),
        loader_(options.loader, inputs),
        writer_(output, loader_) {
    if (options.control.on_progress) {
      on_computed_ = [this](std::int64_t images) { meter_.add_computed(images); };
    }
  }

  JobReport operator()(const std::function<Prepare()>& make_prepare,
                       const std::function<Encode()>& make_encode) {
    const Counter counter(options_, meter_);
    Ticker ticker(
        options_.control.progress_interval,
        [this] {
          if (options_.control.on_progress) {
            options_.control.on_progress(meter_.progress());
          }
        },
        options_.control.stop, [this] { loader_.stop(); });
    std::exception_ptr error;
    try {
      loader_.start(make_prepare);  // started last, because only these threads may be fewer
      run_batches(make_encode);
    } catch (const Interrupted&) {
      error = nullptr;  // the job ends as at the end of the inputs
    } catch (...) {
      error = std::current_exception();
    }
    meter_.enter(Stage::kWrite);
    meter_.end_batch(0);  // a batch that was dropped
    writer_.close();
    output_.checkpoint();
    meter_.enter(Stage::kStart);
    if (error) {
      std::rethrow_exception(error);
    }
    ticker.rethrow();
    return report();
  }

 private:
  [[nodiscard]] bool stopped() const {
    return options_.control.stop != nullptr && options_.control.stop->load();
  }

  void run_batches(const std::function<Encode()>& make_encode) {
    const Encode encode = make_encode ? make_encode() : Encode{};
    for (;;) {
      meter_.enter(Stage::kDecode);
      Batch* batch = stopped() ? nullptr : loader_.next();
      if (batch == nullptr) {
        return;
      }
      batch->compact(options_.loader.image_bytes);
      meter_.enter(Stage::kCompute);
      if (encode) {
        compute(encode, *batch);
      } else {
        batch->stored = std::as_bytes(batch->packed());
      }
      count_failures(*batch);
      meter_.enter(Stage::kWrite);
      writer_.push(*batch);
    }
  }

  void compute(const Encode& encode, Batch& batch) {
    const std::size_t result_bytes = options_.loader.row_bytes;
    if (batch.rows > 0) {
      encode(batch.packed(), batch.grids, batch.results.span().first(batch.rows * result_bytes),
             on_computed_);
    }
    if (options_.stores_results) {
      keep_finite(batch);
      return;
    }
    const std::size_t width = result_bytes / sizeof(float);
    const std::size_t row_bytes = width * bytes_of(options_.dtype);
    batch.converted.resize(batch.rows * row_bytes);
    std::size_t computed = 0;
    std::size_t kept = 0;
    for (Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (!slot.has_pixels()) {
        continue;
      }
      const auto embedding =
          floats_of(batch.results.span().subspan(computed++ * result_bytes, result_bytes));
      if (store_embedding(embedding, options_.normalize, options_.dtype,
                          batch.converted.data() + kept * row_bytes)) {
        ++kept;
      } else {
        slot.error = "its embedding is not finite";
      }
    }
    batch.rows = kept;
    batch.stored = std::span(batch.converted).first(kept * row_bytes);
  }

  // Removes results that are not finite; the others are the rows.
  void keep_finite(Batch& batch) const {
    const std::size_t row_bytes = options_.loader.row_bytes;
    const std::span<std::byte> results = batch.results.span();
    std::size_t computed = 0;
    std::size_t kept = 0;
    for (Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (!slot.has_pixels()) {
        continue;
      }
      const auto row = results.subspan(computed++ * row_bytes, row_bytes);
      if (!all_finite(row, options_.dtype)) {
        slot.error = options_.dtype == OutputDType::kF16
                         ? fmt::format("its features are not finite as f16; try {}",
                                       option_words("dtype", "f32"))
                         : "its features are not finite";
        continue;
      }
      if (computed - 1 != kept) {
        std::memmove(results.data() + kept * row_bytes, row.data(), row_bytes);
      }
      ++kept;
    }
    batch.rows = kept;
    batch.stored = results.first(kept * row_bytes);
  }

  // Throws when too many inputs failed, before the batch is written, so that a later run finds the
  // job as it was.
  void count_failures(const Batch& batch) {
    meter_.end_batch(batch.rows);
    for (const Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (!slot.failed()) {
        lost_range_ += slot.lost_range ? 1 : 0;
        continue;
      }
      meter_.add_failed();
      const JobFailure failure{.source = io::escape(slot.name), .error = slot.error};
      if (options_.max_errors && meter_.failed() > *options_.max_errors) {
        if (*options_.max_errors == 0) {
          fail("{}: {}", failure.source, failure.error);
        }
        fail("more than {} inputs failed; the last one is {}: {}", *options_.max_errors,
             failure.source, failure.error);
      }
      if (options_.control.on_failure) {
        options_.control.on_failure(failure);
      }
    }
  }

  JobReport report() {
    const JobProgress progress = meter_.progress();
    const double seconds = progress.seconds;
    return {.rows = progress.rows,
            .new_rows = progress.new_rows,
            .failed = progress.failed,
            .left_out = {},
            .images_with_lost_range = lost_range_,
            .interrupted = stopped(),
            .seconds = seconds,
            .images_per_second = seconds > 0 ? static_cast<double>(progress.new_rows) / seconds : 0,
            .decode_share = progress.decode_share,
            .compute_share = progress.compute_share,
            .write_share = progress.write_share,
            .decode_utilisation =
                loader_.busy_seconds() / (std::max(seconds, 1e-9) * loader_.threads())};
  }

  const RunOptions& options_;
  Output& output_;
  Meter meter_;
  Loader loader_;
  Writer writer_;
  std::uint64_t lost_range_ = 0;
  OnComputed on_computed_;
};

}  // namespace

bool store_embedding(std::span<const float> embedding, bool normalize, OutputDType dtype,
                     std::byte* stored) {
  const double squares = squared_length(embedding);
  const double length = std::sqrt(squares);
  // NaN and infinity in any element propagate through the sum.
  if (!std::isfinite(squares) || (normalize && length == 0)) {
    return false;
  }
  for (const float value : embedding) {
    const float scaled =
        normalize ? static_cast<float>(static_cast<double>(value) / length) : value;
    if (dtype == OutputDType::kF32) {
      std::memcpy(stored, &scaled, sizeof(scaled));
      stored += sizeof(scaled);
    } else {
      const Float16 half = to_float16(scaled);
      if (!std::isfinite(to_float(half))) {
        return false;
      }
      std::memcpy(stored, &half.bits, sizeof(half.bits));
      stored += sizeof(half.bits);
    }
  }
  return true;
}

JobReport run_job(const RunOptions& options, InputStream& inputs,
                  const std::function<Prepare()>& make_prepare,
                  const std::function<Encode()>& make_encode, Output& output) {
  return Run(options, inputs, output)(make_prepare, make_encode);
}

}  // namespace fovea::pipeline
