// The hub's protocol: finds the commit, its files and their hashes, then fills the cache.
// (huggingface_hub@f7c9b7d src/huggingface_hub/file_download.py: the headers and the layout;
// hf_api.py: /api/models/{id}/revision/{revision}.)
#include "hub/pull.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/text.hpp"
#include "hub/cache.hpp"
#include "hub/digest.hpp"
#include "hub/download.hpp"
#include "hub/resolve.hpp"
#include "io/atomic_file.hpp"
#include "io/file.hpp"
#include "io/file_lock.hpp"
#include "io/json.hpp"
#include "io/text.hpp"

namespace fovea::hub {
namespace fs = std::filesystem;
namespace {

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

std::string endpoint() {
  std::string url = environment("HF_ENDPOINT");
  while (url.ends_with('/')) {
    url.pop_back();
  }
  return url.empty() ? kDefaultEndpoint : url;
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Returns HF_TOKEN, else the content of the file that `hf auth login` writes, else "".
std::string find_token() {
  std::string token = environment("HF_TOKEN");
  if (token.empty()) {
    const std::string path = environment("HF_TOKEN_PATH");
    token = read_file(path.empty() ? home_folder() / "token" : fs::path(path));
  }
  std::erase_if(token, [](unsigned char c) { return c <= ' '; });
  return token;
}

// Tokenizer files, of which a model may have any.
constexpr std::array kTokenizerFiles{"tokenizer.model", "spiece.model", "tokenizer.json",
                                     "tokenizer_config.json"};

void create_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail("{}: cannot create the folder: {}", io::escape(folder.native()), error.message());
  }
}

// Returns whether `name` is a plain file name, which cannot lead out of the model's folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && io::is_utf8(name);
}

/// One pull: state shared by its steps.
class Pull {
 public:
  Pull(const PullOptions& options, const std::function<void(const PullProgress&)>& progress)
      : options_(options),
        progress_(progress),
        endpoint_(endpoint()),
        client_(endpoint_, find_token(),
                [this](const std::string& waiting) { report_progress(waiting); }),
        cache_root_(cache_folder()),
        cache_(cache_root_, options.id) {
    report_.notice = [this](const std::string& text) { report_progress(text); };
    report_.alive = [this] { report_progress(""); };
  }

  fs::path run() {
    find_commit();
    add_file("config.json");
    add_file("preprocessor_config.json");
    for (const char* const name : kTokenizerFiles) {
      if (repository_files_.contains(name)) {
        add_file(name);
      }
    }
    if (repository_files_.contains(kWeights)) {
      add_file(kWeights);
    } else if (repository_files_.contains(kIndex)) {
      add_file(kIndex);
      fetch(files_.back());
      for (const std::string& shard : shards()) {
        add_file(shard);
      }
    } else {
      fail("{}: the model has no {} (nor {}); only safetensors files are supported", options_.id,
           kWeights, kIndex);
    }
    check_free_space();
    for (const RemoteFile& file : files_) {
      fetch(file);
    }
    return publish();
  }

 private:
  void report_progress(const std::string& notice) {
    if (progress_) {
      state_.notice = notice;
      progress_(state_);
      state_.notice.clear();
    }
  }

  // Finds the revision's current commit, and the names of its files.
  void find_commit() {
    const std::string url = fmt::format("{}/api/models/{}/revision/{}", endpoint_, options_.id,
                                        percent_encode(options_.revision));
    const std::string requested_model =
        fmt::format("{} at revision {}", options_.id, options_.revision);
    std::string text;
    with_retries(options_.retries, report_, [&] {
      const HttpResponse response = client_.get_text(url, io::kMaxJsonBytes, text);
      if (response.status != 200) {
        fail_with_status(response, requested_model);
      }
    });
    nlohmann::json info;
    try {
      info = io::parse_json_object(text, url);
    } catch (const Error& error) {
      fail("{}; the reply is not from a hub: check HF_ENDPOINT", error.what());
    }
    if (!info.contains("sha") || !info["sha"].is_string() ||
        !is_commit(info["sha"].get<std::string>()) || !info.contains("siblings") ||
        !info["siblings"].is_array()) {
      fail(
          "{}: the reply is not from a hub (it has no \"sha\" and \"siblings\"): check "
          "HF_ENDPOINT",
          url);
    }
    commit_ = info["sha"].get<std::string>();
    for (const nlohmann::json& sibling : info["siblings"]) {
      if (sibling.is_object() && sibling.contains("rfilename") &&
          sibling["rfilename"].is_string()) {
        repository_files_.insert(sibling["rfilename"].get<std::string>());
      }
    }
  }

  // Requests the size and hash of file `name`, and adds it to the list.
  void add_file(const std::string& name) {
    if (!repository_files_.contains(name)) {
      fail("{}: the model has no {} at revision {}", options_.id, io::escape(name),
           options_.revision);
    }
    RemoteFile file;
    file.name = name;
    file.url =
        fmt::format("{}/{}/resolve/{}/{}", endpoint_, options_.id, commit_, percent_encode(name));
    HttpResponse response;
    with_retries(options_.retries, report_, [&] {
      response = client_.head(file.url);
      if (response.status >= 400 || (response.status != 200 && response.redirect.empty())) {
        fail_with_status(response, fmt::format("{} of {}", name, options_.id));
      }
    });
    if (response.header("x-repo-commit") != commit_) {
      fail(
          "{}: the reply is for commit \"{}\", not {}. It is not from a hub, or the model changed: "
          "check HF_ENDPOINT, or run the pull again",
          file.url, io::escape(response.header("x-repo-commit")), commit_);
    }
    // Large files are stored elsewhere; the hub describes them in special headers.
    const bool is_linked = !response.header("x-linked-etag").empty();
    file.etag = response.header(is_linked ? "x-linked-etag" : "etag");
    if (file.etag.starts_with("W/")) {
      file.etag.erase(0, 2);
    }
    std::erase(file.etag, '"');
    if (!is_content_etag(file.etag)) {
      fail(
          "{}: the hub states neither SHA-256 nor git SHA-1 of the file (etag \"{}\"), so it "
          "cannot be verified",
          file.url, io::escape(file.etag));
    }
    std::string text = response.header("x-linked-size");
    if (text.empty() && response.redirect.empty()) {
      text = response.header("content-length");
    }
    const auto size = parse_number<std::uint64_t>(text);
    if (!size) {
      fail("{}: the hub does not state the file's size (\"{}\")", file.url, io::escape(text));
    }
    file.size = *size;
    if (name.ends_with(".json") && file.size > io::kMaxJsonBytes) {
      fail("{}: {} of {} bytes is too large for this file (at most {})", options_.id, name,
           file.size, io::kMaxJsonBytes);
    }
    state_.total += file.size;
    files_.push_back(std::move(file));
  }

  // Returns the names of the shards in the index, without duplicates.
  std::vector<std::string> shards() const {
    const fs::path blob = cache_.blob(files_.back().etag);
    const nlohmann::json index = io::parse_json_object(io::read_small_file(blob), kIndex);
    std::set<std::string> names;
    if (index.contains("weight_map") && index["weight_map"].is_object()) {
      for (const nlohmann::json& value : index["weight_map"]) {
        const std::string name = value.is_string() ? value.get<std::string>() : "";
        if (!is_plain_name(name)) {
          fail("{}: {} names a shard \"{}\", which is not the name of a file in the same folder",
               options_.id, kIndex, io::escape(name));
        }
        names.insert(name);
      }
    }
    if (names.empty()) {
      fail("{}: {} names no shards", options_.id, kIndex);
    }
    return {names.begin(), names.end()};
  }

  void check_free_space() const {
    create_folders(cache_.folder() / "blobs");
    std::uint64_t needed = 0;
    for (const RemoteFile& file : files_) {
      const std::uint64_t remaining =
          file.size - std::min(file.size, local_bytes(cache_.blob(file.etag)));
      needed += std::min(remaining, std::numeric_limits<std::uint64_t>::max() - needed);
    }
    std::error_code error;
    const fs::space_info space = fs::space(cache_root_, error);
    if (!error && space.available < needed) {
      fail(
          "{}: {} has {} bytes free, but {} more are needed: free some space or set HF_HUB_CACHE "
          "to another disk",
          options_.id, io::escape(cache_root_.native()), space.available, needed - space.available);
    }
  }

  // Downloads and verifies the blob of `file` unless it exists.
  void fetch(const RemoteFile& file) {
    if (fetched_etags_.contains(file.etag)) {
      return;
    }
    create_folders(cache_.folder() / "blobs");
    const fs::path blob = cache_.blob(file.etag);
    state_.file = file.name;
    const io::FileLock lock(lock_path(file.etag), [&, has_notified = false]() mutable {
      report_progress(has_notified ? "" : file.name + ": waiting for another pull of this file");
      has_notified = true;
    });
    const std::uint64_t earlier_bytes = state_.bytes;
    report_.bytes = [&](std::uint64_t present, std::uint64_t received) {
      state_.bytes = earlier_bytes + present;
      state_.received += received;
      report_progress("");
    };
    std::error_code error;
    const bool is_complete = fs::file_size(blob, error) == file.size && !error &&
                             hash_file(blob, file.etag, report_.alive) == file.etag;
    if (!is_complete) {
      download(client_, file, blob, options_.retries, report_);
    }
    report_.bytes = {};
    state_.bytes = earlier_bytes + file.size;
    report_progress("");
    fetched_etags_.insert(file.etag);
  }

  // Returns the path of the lock file. huggingface_hub uses the same file, so its downloads are
  // excluded, too.
  fs::path lock_path(std::string_view name) const {
    const fs::path folder = cache_root_ / ".locks" / cache_.folder().filename();
    create_folders(folder);
    return folder / fmt::format("{}.lock", name);
  }

  // Publishes the snapshot: creates the links first and the revision's name last, so that a
  // revision never names a snapshot that lacks files.
  fs::path publish() {
    const io::FileLock lock(lock_path("snapshots"), report_.alive);
    fs::path snapshot = cache_.snapshot(commit_);
    create_folders(snapshot);
    for (const RemoteFile& file : files_) {
      const fs::path target = fs::path("../../blobs") / file.etag;
      const fs::path link = snapshot / file.name;
      std::error_code ignored;
      if (fs::read_symlink(link, ignored) == target) {
        continue;
      }
      fs::path new_link = link;
      new_link += ".partial";
      fs::remove(new_link, ignored);
      std::error_code error;
      fs::create_symlink(target, new_link, error);
      if (!error) {
        fs::rename(new_link, link, error);
      }
      if (error) {
        fail(
            "{}: cannot create the symbolic link: {}; the cache needs a file system with "
            "symbolic links: set HF_HUB_CACHE to one",
            io::escape(link.native()), error.message());
      }
    }
    if (options_.revision != commit_) {
      const fs::path ref = cache_.ref(options_.revision);
      create_folders(ref.parent_path());
      if (cache_.find_commit(options_.revision) != commit_) {
        io::write_file_atomically(ref, commit_);
      }
    }
    return snapshot;
  }

  const PullOptions& options_;
  const std::function<void(const PullProgress&)>& progress_;
  std::string endpoint_;
  HttpClient client_;
  fs::path cache_root_;
  ModelCache cache_;
  DownloadReport report_;
  PullProgress state_;
  std::string commit_;
  std::set<std::string> repository_files_;
  std::vector<RemoteFile> files_;
  std::set<std::string> fetched_etags_;
};

}  // namespace

fs::path pull_model(const PullOptions& options,
                    const std::function<void(const PullProgress&)>& progress) {
  if (!is_hub_id(options.id)) {
    fail("{}: not a hub id of the form org/name, for example google/siglip2-base-patch16-224",
         io::escape(options.id));
  }
  if (!is_revision(options.revision)) {
    fail("{}: not the name of a branch, a tag or a commit", io::escape(options.revision));
  }
  if (is_offline()) {
    return resolve_model(options.id, options.revision);
  }
  return Pull(options, progress).run();
}

}  // namespace fovea::hub
