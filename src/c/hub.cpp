// fovea_pull over the public pull().
#include "fovea/c/hub.h"

#include <atomic>
#include <chrono>
#include <string>

#include "c/lifetime.hpp"
#include "c/status.hpp"
#include "core/error.hpp"
#include "fovea/hub.hpp"

namespace fovea::c {
namespace {

using Clock = std::chrono::steady_clock;

thread_local std::string pulled_folder;

}  // namespace
}  // namespace fovea::c

fovea_status fovea_pull(const char* name, const char* revision, fovea_pull_handler handler,
                        void* context, const char** folder) {
  using fovea::c::require_pointers;
  return fovea::c::guarded([&] {
    require_pointers({{name, "name"}, {folder, "folder"}});
    std::atomic<bool> stop = false;
    const fovea::c::Activity activity(&stop);
    fovea::PullOptions options{.id = name};
    if (revision != nullptr) {
      options.revision = revision;
    }
    fovea::c::Clock::time_point reported{};
    const auto report = [&](const fovea::PullProgress& progress) {
      if (stop) {
        fovea::fail("the pull was ended, because the process is ending");
      }
      const auto now = fovea::c::Clock::now();
      const bool has_news = !progress.notice.empty() || progress.bytes == progress.total;
      if (handler == nullptr || (!has_news && now - reported < fovea::c::kBetweenReports)) {
        return;
      }
      reported = now;
      const fovea_pull_progress c_progress{.file = progress.file.c_str(),
                                           .notice = progress.notice.c_str(),
                                           .bytes = progress.bytes,
                                           .total = progress.total,
                                           .received = progress.received};
      if (handler(&c_progress, context) != 0) {
        throw fovea::Interrupted();
      }
    };
    fovea::c::pulled_folder = fovea::pull(options, report).native();
    *folder = fovea::c::pulled_folder.c_str();
  });
}
