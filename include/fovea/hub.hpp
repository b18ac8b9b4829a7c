// Models by name: fetching them from a Hugging Face hub, finding them in the local cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace fovea {

struct PullOptions {
  /// "org/name", e.g. "google/siglip2-base-patch16-224".
  std::string id;
  /// Branch, tag or commit.
  std::string revision = "main";
  /// How often a request is tried again when the connection is cut or the server is overloaded;
  /// every attempt that brings the download forward starts the count anew.
  int retries = 5;
};

/// How far a pull is. Sizes in bytes.
struct PullProgress {
  /// The file in work, e.g. "model.safetensors".
  std::string file;
  /// Of all files together: what is here by now, and what there is.
  std::uint64_t bytes = 0;
  std::uint64_t total = 0;
  /// Of those, what this pull received over the network.
  std::uint64_t received = 0;
  /// Not empty when something happened that a person should know: a retry, a wait for another
  /// process, a download that goes on where it stopped.
  std::string notice;
};

/// Fetches what an Encoder needs of a model (config.json, preprocessor_config.json and
/// model.safetensors or its index and shards) into the local Hugging Face cache, where other
/// tools find it too, and returns the snapshot's folder.
///
/// A pull that was stopped goes on where it stopped. Every file is checked against the size and
/// the hash (SHA-256 or git's SHA-1) that the hub states; what does not match is deleted.
/// Environment: HF_ENDPOINT, HF_TOKEN (or the file HF_HOME/token; sent to the endpoint's own host
/// only), HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE (then nothing is fetched, only looked up),
/// SSL_CERT_FILE and the usual proxy variables.
/// Throws fovea::Error when the model is unknown or not open to you, the network fails for good,
/// the disk is full, or a file is not what the hub says.
[[nodiscard]] std::filesystem::path pull(
    const PullOptions& options, const std::function<void(const PullProgress&)>& progress = {});

/// The folder of a model: a folder is taken as it is, "org/name" is looked up at `revision` in
/// the local Hugging Face cache, never on the network. Throws fovea::Error saying where it looked
/// and how to get the model.
[[nodiscard]] std::filesystem::path find_model(const std::string& name_or_folder,
                                               const std::string& revision = "main");

}  // namespace fovea
