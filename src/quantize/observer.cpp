// A backend and an executor that record the inputs of linear layers and forward all calls.
#include "quantize/observer.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "quantize/gram_kernels.hpp"

namespace fovea::quantize {
namespace {

class ObservingExecutor final : public ops::Executor {
 public:
  ObservingExecutor(ops::Executor& inner, std::span<const ops::Place> places, ImageRange images,
                    Observations& observations)
      : inner_(inner), places_(places), images_(images), observations_(observations) {}

 private:
  void do_run(const ops::Call& call) override {
    if (const auto* const linear = std::get_if<ops::LinearCall>(&call)) {
      const ops::LinearProblem& problem = linear->problem;
      if (std::ranges::find(places_, problem.place) != places_.end()) {
        observations_.add(problem.place, static_cast<std::size_t>(problem.layer), images_,
                          linear->input);
      }
    }
    inner_.run(call);
  }

  ops::Executor& inner_;
  std::span<const ops::Place> places_;
  ImageRange images_;
  Observations& observations_;
};

class ObservingBackend final : public ops::Backend {
 public:
  ObservingBackend(std::unique_ptr<ops::Backend> inner, std::vector<ops::Place> places,
                   Observations& observations)
      : inner_(std::move(inner)), places_(std::move(places)), observations_(observations) {}

  [[nodiscard]] std::string description() const override { return inner_->description(); }
  [[nodiscard]] Precision precision() const override { return inner_->precision(); }
  [[nodiscard]] int threads() const override { return inner_->threads(); }
  [[nodiscard]] ops::TensorTypes types() const override { return inner_->types(); }

  [[nodiscard]] Support can_run(const ops::BackendProblem& problem) const override {
    const auto* const linear = std::get_if<ops::LinearProblem>(&problem);
    return linear != nullptr && linear->norm
               ? Support{"a layer whose inputs are observed cannot be fused with its norm"}
               : inner_->can_run(problem);
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    inner_->for_each(count, task);
  }
  void run(const ops::Batch& batch,
           const std::function<void(ops::Executor&, const ops::Slice&)>& network) override {
    const std::lock_guard lock(run_mutex_);
    ops::Batch sliced_batch = batch;
    sliced_batch.one_by_one = true;
    inner_->run(sliced_batch, [&](ops::Executor& executor, const ops::Slice& slice) {
      try {
        ObservingExecutor observing(executor, places_,
                                    {.first = images_ + slice.first, .count = slice.images},
                                    observations_);
        network(observing, slice);
      } catch (...) {
        observations_.abort(std::current_exception());
        throw;
      }
    });
    images_ += batch.images;
  }
  [[nodiscard]] std::int64_t preferred_batch() const override { return inner_->preferred_batch(); }
  [[nodiscard]] std::string take_note() override { return inner_->take_note(); }
  [[nodiscard]] ops::Profile profile() const override { return inner_->profile(); }
  void reset_profile() override { inner_->reset_profile(); }

 private:
  [[nodiscard]] ops::PreparedPtr do_prepare(const ops::Weights& weights) override {
    return inner_->prepare(weights);
  }

  std::unique_ptr<ops::Backend> inner_;
  std::vector<ops::Place> places_;
  Observations& observations_;
  std::mutex run_mutex_;
  std::int64_t images_ = 0;  // number of images in earlier batches
};

}  // namespace

void Observations::add(ops::Place place, std::size_t layer, const ImageRange& images,
                       const ConstTensorView& input) {
  if (input.dtype != DType::kF32) {
    fail("calibration needs f32 activations, but {} reads {}", to_string(place),
         to_string(input.dtype));
  }
  const auto rows = static_cast<std::size_t>(input.shape[0]);
  const auto width = static_cast<std::size_t>(input.shape[1]);
  const auto* const x = input.as<float>();
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[{place, layer}];
  images_added_.wait(lock, [&] { return abort_reason_ || entry.images >= images.first; });
  if (abort_reason_) {
    std::rethrow_exception(abort_reason_);
  }
  if (entry.images > images.first) {
    fail("calibration: image {} was observed twice by {} in layer {}", images.first,
         to_string(place), layer);
  }
  lock.unlock();
  InputStatistics& statistics = entry.statistics;
  if (statistics.width == 0) {
    statistics.width = width;
    statistics.gram = AlignedBuffer<float>(width * width);
    std::ranges::fill(statistics.gram.span(), 0.0F);
    statistics.sum.assign(width, 0.0);
    statistics.peaks.assign(width, 0.0F);
  }
  statistics.rows += rows;
  add_gram(x, rows, width, statistics.gram.data());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      const float value = x[row * width + i];
      statistics.sum[i] += value;
      statistics.peaks[i] = std::max(statistics.peaks[i], std::abs(value));
    }
  }
  lock.lock();
  entry.images += images.count;
  images_added_.notify_all();
}

void Observations::abort(std::exception_ptr reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_) {
    abort_reason_ = std::move(reason);
  }
  images_added_.notify_all();
}

const InputStatistics& Observations::at(ops::Place place, std::size_t layer) const {
  const std::lock_guard lock(mutex_);
  if (const auto entry = entries_.find({place, layer}); entry != entries_.end()) {
    return entry->second.statistics;
  }
  fail("calibration: no inputs of {} in layer {} were observed", to_string(place), layer);
}

std::unique_ptr<ops::Backend> observe(std::unique_ptr<ops::Backend> inner,
                                      std::vector<ops::Place> places, Observations& observations) {
  return std::make_unique<ObservingBackend>(std::move(inner), std::move(places), observations);
}

}  // namespace fovea::quantize
