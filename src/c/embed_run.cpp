// The thread of a run, and the functions of the C interface that query a run.
#include "c/embed_run.hpp"

#include <system_error>
#include <utility>

#include "c/status.hpp"
#include "core/error.hpp"

fovea_embedding::fovea_embedding(std::size_t count, Work work)
    : activity_(std::make_unique<fovea::c::Activity>(&stop_)),
      count_(count),
      work_(std::move(work)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    fovea::fail_for_resources("cannot start a thread: {}", error.what());
  }
}

bool fovea_embedding::wait(std::chrono::milliseconds time) {
  fovea::c::require_this_process(process, "this run", fovea::c::kLoadThere);
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, time, [this] { return ended_; })) {
    return false;
  }
  if (error_) {
    std::rethrow_exception(error_);
  }
  return true;
}

void fovea_embedding::end() {
  stop_ = true;
  if (thread_.joinable()) {
    thread_.join();
  }
}

void fovea_embedding::run() noexcept {
  // Constructed before the thread-local objects of libraries, so destroyed after them, when the
  // thread ends.
  thread_local std::unique_ptr<fovea::c::Activity> activity;
  activity = std::move(activity_);
  std::exception_ptr error;
  try {
    const auto fail_if_shut_down = [this] {
      if (done_ < count_ && fovea::c::is_shut_down()) {
        fovea::fail("the run was ended before its last input, because the process is ending");
      }
    };
    try {
      failures_ = work_({.stop = &stop_,
                         .on_progress = [this](std::size_t done) { done_ = done; },
                         .on_note =
                             [this](std::string_view note) {
                               notes_ += notes_.empty() ? "" : "\n";
                               notes_ += note;
                             }});
    } catch (const fovea::Interrupted&) {
      fail_if_shut_down();
      throw;
    }
    fail_if_shut_down();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    ended_ = true;
  }
  changed_.notify_all();
}

using fovea::c::guarded;
using fovea::c::query_or;
using fovea::c::require_pointers;

fovea_status fovea_embed_wait(fovea_embedding* run, int32_t milliseconds, int32_t* ended) {
  return guarded([&] {
    require_pointers({{run, "run"}, {ended, "ended"}});
    *ended = run->wait(std::chrono::milliseconds(milliseconds)) ? 1 : 0;
  });
}

size_t fovea_embed_done(const fovea_embedding* run) {
  return query_or(run, 0, [](auto& object) { return object.done(); });
}

void fovea_embed_stop(fovea_embedding* run) {
  if (run != nullptr) {
    run->stop();
  }
}

size_t fovea_embed_failures(const fovea_embedding* run) {
  return query_or(run, 0, [](auto& object) { return object.failures().size(); });
}

fovea_status fovea_embed_failure(const fovea_embedding* run, size_t which, size_t* index,
                                 const char** reason) {
  return guarded([&] {
    require_pointers({{run, "run"}, {index, "index"}, {reason, "reason"}});
    if (which >= run->failures().size()) {
      fovea::fail("there is no failure {}: the run has {}", which, run->failures().size());
    }
    const fovea::ImageFailure& failure = run->failures()[which];
    *index = failure.index;
    *reason = failure.error.c_str();
  });
}

const char* fovea_embed_notes(const fovea_embedding* run) {
  return query_or(run, "", [](auto& object) { return object.notes().c_str(); });
}

void fovea_embed_free(fovea_embedding* run) {
  if (run != nullptr && run->process.is_current()) {
    run->end();  // even if free_here() does not delete the object
  }
  fovea::c::free_here(run);
}
