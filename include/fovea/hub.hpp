// Models by name: fetches them from a Hugging Face hub, and finds them in the local cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace [[gnu::visibility("default")]] fovea {

struct PullOptions {
  /// "org/name", e.g. "google/siglip2-base-patch16-224".
  std::string id;
  /// Branch, tag or commit.
  std::string revision = "main";
  /// How many times a request is retried when the connection is cut or the server is overloaded;
  /// every attempt that brings new data resets the count.
  int retries = 5;
};

/// The progress of a pull, reported at least every second.
struct PullProgress {
  /// The file being fetched, e.g. "model.safetensors".
  std::string file;
  std::uint64_t bytes = 0;  ///< bytes of all files that are present so far
  std::uint64_t total = 0;  ///< bytes of all files
  /// Bytes that this pull received over the network.
  std::uint64_t received = 0;
  /// A message for the user when it is not empty: a retry, a wait for another process, a download
  /// that resumes.
  std::string notice;
};

/// Fetches what an Encoder needs of a model (config.json, preprocessor_config.json, the
/// tokenizer's files, and model.safetensors or its index and shards) into the local Hugging Face
/// cache, where other tools find it too, and returns the snapshot's folder.
///
/// A pull that was stopped resumes where it stopped. Every file is checked against the size and the
/// hash (SHA-256 or git's SHA-1) that the hub states; a file that does not match is deleted.
/// Environment: HF_ENDPOINT, HF_TOKEN (or the file HF_HOME/token; sent to the endpoint's own host
/// only), HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE (then the model is only looked up), SSL_CERT_FILE
/// and the usual proxy variables. An exception thrown by `progress` ends the pull. Throws
/// fovea::Error when the model is unknown or you may not read it, the network keeps failing, the
/// disk is full, or a file does not match what the hub says.
[[nodiscard]] std::filesystem::path pull(
    const PullOptions& options, const std::function<void(const PullProgress&)>& progress = {});

/// Returns the folder of a model: the path of a folder is returned unchanged, and "org/name" is
/// looked up at `revision` in the local Hugging Face cache, never on the network. Throws
/// fovea::Error when the model is not there; the message says where it looked and how to get the
/// model.
[[nodiscard]] std::filesystem::path find_model(const std::string& name_or_folder,
                                               const std::string& revision = "main");

}  // namespace fovea
