// Runs the main loop of a job on the calling thread, which computes.
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

std::size_t element_bytes(OutputDType dtype) {
  return size_of(dtype == OutputDType::kF32 ? DType::kF32 : DType::kF16);
}

// Returns whether all numbers are finite. In infinity and NaN, all exponent bits are set.
template <typename Bits, Bits kExponent>
bool are_bits_finite(std::span<const std::byte> numbers) {
  bool finite = true;
  for (std::size_t offset = 0; offset < numbers.size(); offset += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, numbers.data() + offset, sizeof(bits));
    finite &= (bits & kExponent) != kExponent;
  }
  return finite;
}

bool all_finite(std::span<const std::byte> numbers, OutputDType dtype) {
  return dtype == OutputDType::kF32 ? are_bits_finite<std::uint32_t, 0x7f800000U>(numbers)
                                    : are_bits_finite<std::uint16_t, 0x7c00U>(numbers);
}

// Counts the inputs on a thread of the lowest priority while the job runs.
class InputCounter {
 public:
  InputCounter(const RunOptions& options, Meter& meter) {
    if (!options.count_inputs || !options.control.on_progress) {
      return;
    }
    try {
      thread_ = std::thread([this, count = options.count_inputs, &meter] { work(count, meter); });
    } catch (const std::system_error&) {
      return;  // without the thread, progress lacks an estimate of the time left
    }
  }
  ~InputCounter() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  InputCounter(const InputCounter&) = delete;
  InputCounter& operator=(const InputCounter&) = delete;

 private:
  void work(const std::function<std::optional<std::uint64_t>(StopFlag)>& count, Meter& meter) {
    constexpr int kNice = 19;
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
    try {
      if (const auto total = count(&stop_)) {
        meter.set_total(*total);
      }
    } catch (const std::exception&) {
      return;  // the job will report the same error
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
    const InputCounter counter(options_, meter_);
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
      loader_.start(make_prepare);  // last: the loader can do with fewer threads than requested
      run_batches(make_encode);
    } catch (const Interrupted&) {
      error = nullptr;  // an interrupted job ends like a complete one
    } catch (...) {
      error = std::current_exception();
    }
    meter_.enter(Stage::kWrite);
    meter_.end_batch(0);  // does not count a batch that was dropped
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
      remove_non_finite(batch);
      return;
    }
    const std::size_t width = result_bytes / sizeof(float);
    const std::size_t row_bytes = width * element_bytes(options_.dtype);
    batch.converted.resize(batch.rows * row_bytes);
    std::size_t result_index = 0;
    std::size_t kept_rows = 0;
    for (Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (!slot.has_pixels()) {
        continue;
      }
      const auto embedding =
          as_floats(batch.results.span().subspan(result_index++ * result_bytes, result_bytes));
      if (store_embedding(embedding, options_.normalize, options_.dtype,
                          batch.converted.data() + kept_rows * row_bytes)) {
        ++kept_rows;
      } else {
        slot.error = "the embedding is not finite";
      }
    }
    batch.rows = kept_rows;
    batch.stored = std::span(batch.converted).first(kept_rows * row_bytes);
  }

  // Removes results that are not finite. The remaining ones are the rows.
  void remove_non_finite(Batch& batch) const {
    const std::size_t row_bytes = options_.loader.row_bytes;
    const std::span<std::byte> results = batch.results.span();
    std::size_t result_index = 0;
    std::size_t kept_rows = 0;
    for (Slot& slot : std::span(batch.slots).first(batch.count)) {
      if (!slot.has_pixels()) {
        continue;
      }
      const auto row = results.subspan(result_index++ * row_bytes, row_bytes);
      if (!all_finite(row, options_.dtype)) {
        slot.error = options_.dtype == OutputDType::kF16
                         ? fmt::format("the features are not finite as f16; try {}",
                                       option_words("dtype", "f32"))
                         : "the features are not finite";
        continue;
      }
      if (result_index - 1 != kept_rows) {
        std::memmove(results.data() + kept_rows * row_bytes, row.data(), row_bytes);
      }
      ++kept_rows;
    }
    batch.rows = kept_rows;
    batch.stored = results.first(kept_rows * row_bytes);
  }

  // Counts and reports the failures in a batch. Throws when too many inputs have failed; this
  // happens before the batch is written, so that a later run repeats it.
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
  // The sum is not finite when any element is NaN or infinity.
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
